# shellcheck shell=bash
# Sourced by the other scripts: sets up on first use, then sets `root` (the
# repository) and `python` (an interpreter with all packages). A script that
# needs more modules than torch and fairseq names them in the array `needs`.
root=$(CDPATH="" cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)

# serves PYTHON MODULE...: succeeds if fairseq runs on this Python, and it has the modules.
serves() {
    # PYTHONSAFEPATH: a folder torch/ in the current folder must not count as the module.
    PYTHONSAFEPATH=1 "$1" -c 'import sys
from importlib.util import find_spec as found
fits = (3, 11) <= sys.version_info[:2] <= (3, 13)
sys.exit(not (fits and all(map(found, sys.argv[1:]))))' "${@:2}" >/dev/null 2>&1
}

# shellcheck disable=SC2154 # the script that sources this file sets needs
# Use python3 if it has all modules, unless scripts/setup.sh was run here.
if [[ -z ${DIVERSE_MHA_PYTHON:-} && ! -e $root/.venv && ! -L $root/.venv ]] &&
    serves python3 torch fairseq ${needs[@]+"${needs[@]}"}; then
    DIVERSE_MHA_PYTHON=$(command -v python3)
    export DIVERSE_MHA_PYTHON
fi
bash "$root/scripts/setup.sh" >&2 || exit $? # stdout is for the command's output
python=${DIVERSE_MHA_PYTHON:-$root/.venv/bin/python}
if [[ -n ${DIVERSE_MHA_PYTHON:-} ]]; then
    # An absolute path, because some scripts change the folder before they use it.
    [[ $python != */* || $python == /* ]] || python=$PWD/$python
    if ! serves "$python" torch fairseq; then
        echo "error: DIVERSE_MHA_PYTHON=$DIVERSE_MHA_PYTHON: not a Python with torch and" \
            "fairseq; give another, or unset it to use .venv" >&2
        exit 2
    fi
    export DIVERSE_MHA_PYTHON=$python # scripts that this one calls start in another folder
fi
# Import this copy of the package, from any folder and with any Python.
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}
export DIVERSE_MHA_SCRIPT=${0##*/} # name of the command in --help and errors
export PYTHONSAFEPATH=1 # do not import another copy from the current folder
# torch's threads spin while they wait for each other. With other programs on
# the same cores, this makes small models train many times slower.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
