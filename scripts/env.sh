# shellcheck shell=bash
# Sourced by the other scripts: sets up on first use, then gives `root` (the
# repository) and `python` (the interpreter that has everything).
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bash "$root/scripts/setup.sh" || exit $?
# shellcheck disable=SC2034  # used by the scripts that source this
python=${DIVERSE_MHA_PYTHON:-$root/.venv/bin/python}
# Whatever the folder a script is called from, and whatever Python it uses.
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}
# torch's threads spin while they wait for each other, and with other programs
# on the same cores a small model trains many times slower for it.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
# glibc gives large blocks back to the system after every tensor, and the kernel
# clears them anew for the next one: a tenth of a training step on the CPU.
export MALLOC_MMAP_THRESHOLD_=${MALLOC_MMAP_THRESHOLD_:-4294967296}
export MALLOC_TRIM_THRESHOLD_=${MALLOC_TRIM_THRESHOLD_:-8589934592}
