#!/usr/bin/env bash
# From nothing to two trained, scored models on the corpus that comes along.
set -euo pipefail

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    cat <<'EOF'
usage: bash scripts/quickstart.sh

Sets up, prepares the demo corpus (data/demo), trains a small Transformer twice,
without and with HSIC, which makes heads less alike (runs/quickstart), translates
the test set with both and prints a table. A few minutes on two cores after the set-up.
Interrupted, it goes on where it was; finished steps are not repeated.

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

data=data/demo/bin
runs=runs/quickstart

# The recipe of both models. fairseq leaves out a last batch that is no multiple
# of --required-batch-size-multiple, so it is 1.
recipe=(
    --task exact_translation --source-lang lm --target-lang qo
    --arch transformer_disagree_small --share-all-embeddings --dropout 0.1
    --criterion label_smoothed_cross_entropy_with_diversity --label-smoothing 0.1
    --optimizer adam --adam-betas '(0.9, 0.98)'
    --lr 3e-3 --lr-scheduler inverse_sqrt --warmup-updates 300
    --max-tokens 2048 --required-batch-size-multiple 1 --num-workers 0
    --max-update "$updates" --seed 1
    --best-checkpoint-metric nll_loss --no-epoch-checkpoints
)

# Reads fairseq's log and shows one line an epoch; the progress bar is not in the log.
show_epochs() {
    awk -F ' [|] ' '/valid on/ {
        for (i = 1; i <= NF; i++) {
            if ($i ~ /^epoch /) epoch = substr($i, 7) + 0
            if ($i ~ /^ppl /) ppl = substr($i, 5)
            if ($i ~ /^num_updates /) updates = substr($i, 13)
        }
        printf "      epoch %2d  update %5d  validation perplexity %8.2f\n", epoch, updates, ppl
        fflush()
    }'
}

# train NAME [further options]: trains runs/quickstart/NAME, or goes on with it.
train() {
    local folder=$runs/$1 identity
    shift
    # A run belongs to its options and its data; with others it starts anew.
    identity=$(printf '%s\n' "${recipe[@]}" "$@" && cksum <"$data/stamp")
    if [[ -f $folder/identity && $(<"$folder/identity") != "$identity" ]]; then
        echo "      the recipe or the data changed: training anew"
        rm -rf "$folder"
    fi
    if [[ -f $folder/trained ]]; then
        echo "      (already done)"
        return
    fi
    mkdir -p "$folder"
    echo "$identity" >"$folder/identity"
    bash scripts/train.sh "$data" "${recipe[@]}" "$@" --save-dir "$folder" \
        --log-format tqdm --log-interval 50 | tee -a "$folder/train.log" | show_epochs
    touch "$folder/trained"
}

# evaluate NAME: translates the test set with the best checkpoint of NAME.
evaluate() {
    local folder=$runs/$1
    if [[ -f $folder/test.json && $folder/test.json -nt $folder/trained ]]; then
        echo "      (already done)"
        return
    fi
    # No sentence is that long; a model of a few updates would else go on to 200 words.
    bash scripts/evaluate.sh "$folder/checkpoint_best.pt" "$data" --output "$folder/test.json" \
        --max-len-a 1.2 --max-len-b 8 |
        sed 's/^/      /'
}

start=$SECONDS
echo "[1/6] demo corpus"
bash data-prep/prepare-demo.sh | sed 's/^/      /'
echo "[2/6] training the baseline, $updates updates (log: $runs/baseline/train.log)"
train baseline
echo "[3/6] training with HSIC, $updates updates (log: $runs/hsic/train.log)"
train hsic --hsic-weight 1e-7
echo "[4/6] translating with the baseline"
evaluate baseline
echo "[5/6] translating with HSIC"
evaluate hsic
echo "[6/6] results"
"$python" -m diverse_mha.training.quickstart "$data" \
    "baseline=$runs/baseline/test.json" "HSIC 1e-7=$runs/hsic/test.json"
echo "Done in $((SECONDS - start)) s. Next: README.md, 'Train on your own sentence pairs'."
