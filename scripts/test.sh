#!/usr/bin/env bash
# Sets up, then runs the tests.
set -euo pipefail

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    cat <<'EOF'
usage: bash scripts/test.sh [arguments of pytest]

Without arguments: the unit tests and the integration tests, which run the
command-line tools, in three processes (pytest-xdist).
With arguments, pytest runs with these alone:
  bash scripts/test.sh tests/attention          the unit tests of one folder
  bash scripts/test.sh -m system                trainings until something is learnt
EOF
    exit 0
fi

needs=(pytest xdist)
. -- "$(dirname -- "${BASH_SOURCE[0]}")/env.sh"
cd "$root"
if (($#)); then
    exec "$python" -m pytest "$@"
fi
# Three processes keep two cores busy, because they wait a fifth of their time for commands that tests
# start. Each starts with a third of the tests in order, because neighbours share fixtures.
export OMP_NUM_THREADS=1
exec "$python" -m pytest -q -n 3 --dist worksteal -m "not system and not gpu"
