#!/usr/bin/env bash
# Prepares the demo corpus that comes with the project: two small invented languages, Lumi (lm) and
# Qorun (qo), generated in seconds with their true word alignments (raw/SPLIT.align); needs no network.
#
#     bash data-prep/prepare-demo.sh
#     bash data-prep/prepare-demo.sh --pairs 500 --merges 200 --out data/tiny

. -- "$(dirname -- "${BASH_SOURCE[0]}")/translation.sh"
source=lm target=qo moses=(en en)
option pairs 5000 N20 "training pairs; valid and test get a twentieth each"
option seed 1 N0 "seed of the sentences"
option subwords bpe "bpe|sentencepiece" "how to split words: subword-nmt's BPE or sentencepiece"
option merges 600 N1 "BPE merges, or sentencepiece pieces, for both sides"
begin "$@"
[[ $subwords == bpe ]] || subwords=pieces

raw() { # --version=N --pairs=N --seed=N
    run demo "$@" "$tmp"
    pairs "$tmp"
}

step raw generate raw --version=2 --pairs="$pairs" --seed="$seed"
step tok tokenise tokenise --normalise
step clean filter filter --max-length=250 --max-ratio=9
step bpe subwords "$subwords" --merges="$merges"
step bin binarise preprocess --joined-dictionary
run_steps
ready
