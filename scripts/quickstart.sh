#!/usr/bin/env bash
# From nothing to two trained, scored models on the corpus that comes along.
set -euo pipefail

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    cat <<'EOF'
usage: bash scripts/quickstart.sh

Sets up, prepares the demo corpus (data/demo), trains a small Transformer twice,
without and with HSIC, which makes heads less alike (runs/quickstart), translates
the test set with both and prints a table. Each step shows its command. A few minutes
on two cores after the set-up. Interrupted, it goes on where it was; finished steps
are not repeated.

environment:
  QUICKSTART_UPDATES    updates of each training (default: 1000)
EOF
    exit 0
fi

fail() {
    echo "error: $*; see bash scripts/quickstart.sh --help" >&2
    exit 2
}

# Refused here, before anything is set up or made.
updates=${QUICKSTART_UPDATES:-1000}
(($# == 0)) || fail "$1: there are no options"
[[ $updates =~ ^[1-9][0-9]*$ ]] || fail "QUICKSTART_UPDATES=$updates: must be a whole number from 1 up"

. -- "$(dirname -- "${BASH_SOURCE[0]}")/env.sh"
cd "$root"

start=$SECONDS
runs=runs/quickstart
for method in baseline hsic; do
    bash scripts/run.sh quickstart "method=$method" "checkpoint.save_dir=$runs/$method" \
        "optimization.max_update=$updates"
    echo
done
"$python" -m diverse_mha.training.quickstart data/demo/bin \
    "baseline=$runs/baseline/test.json" "HSIC 1e-7=$runs/hsic/test.json"
echo "Done in $((SECONDS - start)) s. Next: README.md, 'Train on your own sentence pairs'."
