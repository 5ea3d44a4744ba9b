#!/usr/bin/env bash
# Checks the style of the Python code and the syntax of the shell scripts.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$root"
code=0
"$python" -m ruff check . || code=1
"$python" -m ruff format --check . || code=1

scripts=(.ci/run)
while IFS= read -r -d '' script; do
    scripts+=("$script")
done < <(find scripts data-prep -name '*.sh' -print0)
for script in "${scripts[@]}"; do
    bash -n "$script" || code=1
done
if command -v shellcheck >/dev/null; then
    shellcheck -x --source-path=SCRIPTDIR "${scripts[@]}" || code=1
else
    echo "shellcheck is not installed: shell scripts checked for syntax only"
fi
exit "$code"
