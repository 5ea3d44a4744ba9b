#!/usr/bin/env bash
# Sets up, then trains and scores two small models on the demo corpus.
set -euo pipefail

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    cat <<'EOF'
usage: bash scripts/quickstart.sh

Sets up, prepares the demo corpus (data/demo), trains a small Transformer twice,
without and with HSIC, which makes heads less similar (runs/quickstart), translates
the test set with both and prints a table. Each step shows its command. After the
set-up this takes a few minutes on two cores. If it is interrupted, run it again to
resume; finished steps are not repeated.

environment:
  QUICKSTART_UPDATES    number of updates of each training (default: 1000)
EOF
    exit 0
fi

fail() {
    echo "error: $*; see bash scripts/quickstart.sh --help" >&2
    exit 2
}

# Check the input before anything is set up.
updates=${QUICKSTART_UPDATES:-1000}
(($# == 0)) || fail "$1: this script has no options"
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
echo "Done in $((SECONDS - start)) s. Next: docs/tutorial.md, or README.md, 'Train with a method'."
