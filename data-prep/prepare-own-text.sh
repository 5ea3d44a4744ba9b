#!/usr/bin/env bash
# Prepares text of your own for a language model: a folder with train.txt, valid.txt and test.txt, or
# gzipped files (train.txt.gz). The text is tokenised, with one sentence or paragraph per line.
#
#     bash data-prep/prepare-own-text.sh --from FOLDER --min-count 3 --out data/mine-text

. -- "$(dirname -- "${BASH_SOURCE[0]}")/running-text.sh"
corpus=own
option min_count "" N1 "words that occur fewer than N times in train.txt become <unk>"
begin "$@"
[[ -n $from ]] || wrong "--from: give the folder with train.txt, valid.txt and test.txt"

files=()
for split in train valid test; do
    own_text "$split.txt"
    files+=("$got")
done

raw() {
    collect train "${files[0]}"
    collect valid "${files[1]}"
    collect test "${files[2]}"
    tokens
}

step raw fetch raw --files="$(sum_of_texts "${files[@]}")"
step bin binarise preprocess ${min_count:+--min-count="$min_count"}
run_steps
ready
