# shellcheck shell=bash
# Sourced by the other scripts: sets up on first use, then gives `root` (the
# repository) and `python` (the interpreter that has everything).
root=$(CDPATH="" cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
bash "$root/scripts/setup.sh" >&2 || exit $?  # stdout is the command's own
python=${DIVERSE_MHA_PYTHON:-$root/.venv/bin/python}
if [[ -n ${DIVERSE_MHA_PYTHON:-} ]]; then
    # Some scripts change the folder before they use it.
    [[ $python != */* || $python == /* ]] || python=$PWD/$python
    if ! "$python" -c 'from importlib.util import find_spec as found
import sys
sys.exit(not (found("torch") and found("fairseq")))' >/dev/null 2>&1; then
        echo "error: DIVERSE_MHA_PYTHON=$DIVERSE_MHA_PYTHON: no Python that has torch and" \
            "fairseq; give another, or unset it for the one that scripts/setup.sh makes" >&2
        exit 2
    fi
    export DIVERSE_MHA_PYTHON=$python # scripts that this one calls start in another folder
fi
# Whatever the folder a script is called from, and whatever Python it uses.
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}
export DIVERSE_MHA_SCRIPT=${0##*/} # what --help and errors call the command
export PYTHONSAFEPATH=1 # a folder that holds another copy of the package does not come first
# torch's threads spin while they wait for each other, and with other programs
# on the same cores a small model trains many times slower for it.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
