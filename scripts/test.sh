#!/usr/bin/env bash
# Sets up, then runs the tests.
set -euo pipefail

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    cat <<'EOF'
usage: bash scripts/test.sh [arguments of pytest]

Without arguments: the unit tests, then the integration tests, which drive the
command-line tools, each in three processes (pytest-xdist).
With arguments, pytest runs once with just these:
  bash scripts/test.sh tests/attention          the unit tests of one folder
  bash scripts/test.sh -m system                the tests that train a model
EOF
    exit 0
fi

needs=(pytest xdist)
. -- "$(dirname -- "${BASH_SOURCE[0]}")/env.sh"
cd "$root"
if (($#)); then
    exec "$python" -m pytest "$@"
fi
# Each begins with a third of the tests, for neighbours share what they need. Three keep two cores
# busy: a fifth of the time goes into waiting, for the commands that the tests start.
export OMP_NUM_THREADS=1
code=0
for tier in "" integration; do
    "$python" -m pytest -q -n 3 --dist worksteal ${tier:+-m "$tier"} || code=$?
done
exit "$code"
