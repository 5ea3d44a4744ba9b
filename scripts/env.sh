# shellcheck shell=bash
# Sourced by the other scripts: sets up on first use, then gives `root` (the
# repository) and `python` (the interpreter that has everything). A script that
# needs more modules than torch and fairseq names them in the array `needs`.
root=$(CDPATH="" cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)

# serves PYTHON MODULE...: whether it is a Python that fairseq runs on, and has the modules.
serves() {
    # A folder torch/ where one stands is no torch.
    PYTHONSAFEPATH=1 "$1" -c 'import sys
from importlib.util import find_spec as found
fits = (3, 11) <= sys.version_info[:2] <= (3, 13)
sys.exit(not (fits and all(map(found, sys.argv[1:]))))' "${@:2}" >/dev/null 2>&1
}

# shellcheck disable=SC2154 # needs: of the script that sources this
# A python3 that has all of them serves, unless scripts/setup.sh was run here.
if [[ -z ${DIVERSE_MHA_PYTHON:-} && ! -e $root/.venv && ! -L $root/.venv ]] &&
    serves python3 torch fairseq ${needs[@]+"${needs[@]}"}; then
    DIVERSE_MHA_PYTHON=$(command -v python3)
    export DIVERSE_MHA_PYTHON
fi
bash "$root/scripts/setup.sh" >&2 || exit $? # stdout is the command's own
python=${DIVERSE_MHA_PYTHON:-$root/.venv/bin/python}
if [[ -n ${DIVERSE_MHA_PYTHON:-} ]]; then
    # Some scripts change the folder before they use it.
    [[ $python != */* || $python == /* ]] || python=$PWD/$python
    if ! serves "$python" torch fairseq; then
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
