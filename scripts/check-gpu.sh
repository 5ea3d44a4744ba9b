#!/usr/bin/env bash
# Runs tests and benchmarks on a GPU, each with a time limit, most important first.
set -euo pipefail

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    cat <<'EOF'
usage: bash scripts/check-gpu.sh [--device cuda|cpu] [--output FOLDER]

Checks results and speed on a GPU in about nine minutes. Every check has a time limit and a
log of its own in FOLDER (runs/check-gpu). Run the command again to resume: checks that passed
are skipped. The exit code is 1 if a check failed or ran out of time.

  --device cpu      rehearse with small models, without a GPU

example:
  bash scripts/check-gpu.sh
EOF
    exit 0
fi

fail() {
    echo "error: $*; see bash scripts/check-gpu.sh --help" >&2
    exit 2
}

device=cuda output=runs/check-gpu
while (($#)); do
    case $1 in
        --device) device=${2:-} && [[ $device == cuda || $device == cpu ]] ||
            fail "--device ${2:-}: choose cuda or cpu" ;;
        --output) output=${2:-} && [[ -n $output ]] || fail "--output: give a folder" ;;
        *) fail "$1: unknown option" ;;
    esac
    shift 2 || fail "$1: give a value"
done

. -- "$(dirname -- "${BASH_SOURCE[0]}")/env.sh"
mkdir -p -- "$output"
output=$(CDPATH="" cd -- "$output" && pwd)
cd "$root"
export DIVERSE_MHA_TEST_DEVICE=$device
bad=0

# check NAME SECONDS COMMAND...: runs a command unless it has passed before.
check() {
    local name=$1-$device limit=$2 code=0 begun=$SECONDS
    shift 2
    if [[ -f $output/$name.passed ]]; then
        echo "$name: passed before"
        return
    fi
    echo "$name: at most $limit s; log: $output/$name.log"
    timeout --signal=INT --kill-after=5 "$limit" "$@" >"$output/$name.log" 2>&1 || code=$?
    if ((code == 0)); then
        echo "$name: passed in $((SECONDS - begun)) s: $(tail -n 1 "$output/$name.log")"
        touch "$output/$name.passed"
    else
        ((code == 124)) && echo "$name: out of time" || echo "$name: FAILED (exit code $code)"
        tail -n 5 "$output/$name.log" | sed 's/^/    /'
        bad=1
    fi
}

tests() { # NAME SECONDS FILE...
    check "$1" "$2" "$python" -m pytest -q -m gpu -p no:cacheprovider "${@:3}"
}

benchmark() { # NAME SECONDS [options]
    check "$1" "$2" "$python" -m diverse_mha.cli benchmark --device "$device" "${@:3}"
}

methods=plain,output,em-1-2,all-three,coda
if [[ $device == cuda ]]; then
    size=(--shape base --rounds 20 --warm-up 2) half=fp16 updates=300
else
    size=(--shape tiny --rounds 2 --warm-up 1 --batch-tokens 400 --mean-length 15)
    half=bf16 updates=6
    methods=plain,coda
fi

tests kernel 120 tests/gpu/test_kernel.py
benchmark bf16 120 "${size[@]}" --variants "$methods" --precision bf16 --optimizer fused_adam
tests operations 150 tests/gpu/test_operations.py tests/gpu/test_models.py tests/gpu/test_steps.py
if [[ $device == cuda ]]; then
    benchmark bf16-large 120 "${size[@]}" --variants "$methods" --precision bf16 \
        --optimizer fused_adam --batch-tokens 16384
fi
benchmark half 90 "${size[@]}" --variants "$methods" --precision "$half" --optimizer fused_adam
if [[ ! -d data/demo/bin ]]; then
    check corpus 60 bash data-prep/prepare-demo.sh
fi
rm -rf -- "$output/training-$device" # the folder of a failed attempt
check training 90 bash scripts/train.sh data/demo/bin --task exact_translation --arch transformer_coda_small \
    --criterion label_smoothed_cross_entropy_with_diversity --share-all-embeddings \
    --optimizer fused_adam --lr 0.002 --lr-scheduler inverse_sqrt --warmup-updates 100 \
    --max-tokens 4096 --max-update "$updates" --num-workers 0 --no-epoch-checkpoints \
    --save-dir "$output/training-$device" "--$half"
tests resume 200 tests/gpu/test_trainings.py
echo "Logs: $output"
exit "$bad"
