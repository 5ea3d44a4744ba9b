#!/usr/bin/env bash
# Prepares the pairs of logical formulas of Bowman et al. 2014, of which a model says how they are
# related: generates a set by their procedure, or reads the published files train0 to train12 (and
# test0 to test12 where they are there), plain or .gz. --out gets pairs/ (the published format, a file
# a length), split/, and bin/ for fairseq-train.
#
#     bash data-prep/prepare-logic.sh
#     bash data-prep/prepare-logic.sh --from FOLDER --out data/logic-published

. -- "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
option draws "" N1 "pairs to draw, repeated ones included, when they are generated (500000)"
option seed 1 N0 "seed of the pairs and of the split"
option train_operators 6 N1 "most operators of a training or validation pair"
begin "$@"
[[ -z $from || -z $draws ]] || wrong "--draws has no effect with --from; leave out one of them"
((train_operators <= 12)) || wrong "--train-operators $train_operators: must be at most 12"

logic() { run logic "$@" "$tmp"; }
published() { run logic read "$@" "$from" "$tmp"; }

if [[ -n $from ]]; then
    step pairs read published --files="$(sum_of "$from/"{train,test}{0,1,2,3,4,5,6,7,8,9,10,11,12}{,.gz})"
else
    step pairs generate logic generate --version=1 --draws="${draws:-500000}" --seed="$seed"
fi
split() { logic split "$@" "$out/pairs"; }
binarise() { logic binarise "$@" "$out/split"; }
step split split split --seed="$seed" --train-operators="$train_operators"
step bin binarise binarise --seed="$seed" --train-operators="$train_operators"
run_steps
echo "ready: fairseq-train $(quoted "$out/bin")"
