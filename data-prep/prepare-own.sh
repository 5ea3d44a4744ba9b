#!/usr/bin/env bash
# Prepares translations of your own: a folder with train, valid and test as plain text, one sentence a
# line, each in two files such as train.de and train.en.
#
#     bash data-prep/prepare-own.sh --from FOLDER --source de --target en --out data/mine
#
# To fine-tune a model, prepare the text like the corpus it was trained on:
#
#     bash data-prep/prepare-own.sh --from FOLDER --source de --target en --out data/tuned \
#         --subwords-from data/multi30k --dictionary-from data/multi30k

. -- "$(dirname -- "${BASH_SOURCE[0]}")/translation.sh"
corpus=own
option source "" LANG "source language, as in de"
option target "" LANG "target language, as in en"
option tokeniser moses "moses|none" "moses has jieba for Chinese; none leaves all cutting to sentencepiece"
option normal_form NFC "NFC|NFD|NFKC|NFKD|none" "Unicode's normal form that text gets first; none leaves it as it is"
option lowercase "" flag "lowercase both sides"
option max_length 250 N1 "longest training sentence to keep, in words, or letters where a script has no spaces"
option max_ratio 9 X "largest ratio of the lengths of both sides in training"
option subwords bpe "bpe|sentencepiece" "how to split words: subword-nmt's BPE or sentencepiece"
option merges 8000 N1 "BPE merges, or sentencepiece pieces, for both sides"
option vocabulary_threshold "" N0 "split up again what a language has fewer than N times; bpe only"
option separate_dictionaries "" flag "one dictionary per language instead of a joined one"
option subwords_from "" FOLDER "segment as this earlier prepared corpus, as fine-tuning of its models needs"
option dictionary_from "" FOLDER "take the dictionaries of this earlier prepared corpus; fine-tuning needs both"
begin "$@"

for name in source target; do
    [[ ${!name} =~ ^[A-Za-z0-9_][A-Za-z0-9_@-]*$ ]] || wrong "--$name '${!name}' is no language's code; give one, as in de"
done
[[ $source != "$target" ]] || wrong "--source and --target are both $source"
[[ -n $from ]] || wrong "--from: give the folder with train.$source, train.$target and so on"
for name in tokeniser normal_form lowercase subwords merges vocabulary_threshold; do
    [[ -z $subwords_from || $given != *" $name "* ]] || wrong "--${name//_/-}: --subwords-from decides it; leave it out"
done
[[ -z $dictionary_from || -z $separate_dictionaries ]] ||
    wrong "--separate-dictionaries: --dictionary-from decides it; leave it out"
if [[ $tokeniser == none ]]; then
    [[ $subwords == sentencepiece || $given != *" subwords "* ]] || wrong "--subwords bpe needs tokens; give --subwords sentencepiece"
    subwords=sentencepiece
fi
[[ -z $vocabulary_threshold || $subwords == bpe ]] || wrong "--vocabulary-threshold works with --subwords bpe only"
texts_given=()
for name in {train,valid,test}."$source" {train,valid,test}."$target"; do
    [[ -f $from/$name ]] || fail "$from has no $name; put it there"
    texts_given+=("$from/$name")
done

rules=(--normalise --normal-form="$normal_form" --whole-letters)
[[ $tokeniser == moses ]] || rules=(--tokeniser=none --normal-form="$normal_form")
[[ -z $lowercase ]] || rules+=(--lowercase)
earlier=() earlier_dictionaries=()
# What the languages and an earlier corpus decide: prints moses and the variables above.
decided=$(run own --source="$source" --target="$target" --tokeniser="$tokeniser" --subwords-from="$subwords_from" \
    --dictionary-from="$dictionary_from") || exit 2
eval "$decided"

raw() {
    local split
    for split in train valid test; do collect $split plain "$from/$split.$source" "$from/$split.$target"; done
    pairs "$tmp"
}

like_earlier() { # --size=SUM [--vocabulary-threshold=N] [--pieces]
    local file threshold=""
    [[ ${2:-} != --vocabulary-threshold=* ]] || threshold=${2#*=}
    for file in "${earlier[@]}"; do cp -- "$file" "$tmp"; done
    segment "$threshold" "those of $(dirname -- "${earlier[0]%/*}")" "$tmp/${earlier[0]##*/}" "$tmp/${earlier[1]##*/}"
}

own_bin() { # --joined-dictionary or --separate-dictionaries
    if [[ $1 == --joined-dictionary ]]; then preprocess "$1"; else preprocess; fi
}

with_dictionaries() { # --dictionaries=SUM
    to_bin --srcdict "${earlier_dictionaries[0]}" --tgtdict "${earlier_dictionaries[1]}"
    echo "dictionaries of ${earlier_dictionaries[0]%/*}, $(lines "$tmp/dict.$source.txt") and" \
        "$(lines "$tmp/dict.$target.txt") types; unknown: $(unknown "$source"), $(unknown "$target")"
}

unknown() { echo "$(run running_text unknown "$tmp/dict.$1.txt" "$out/bpe/train.$1") in $1"; }

step raw fetch raw --files="$(sum_of "${texts_given[@]}")"
step tok tokenise tokenise "${rules[@]}"
step clean filter filter --max-length="$max_length" --max-ratio="$max_ratio" ${counted:+--count-letters="$counted"}
if ((${#earlier[@]} > 0)); then
    step bpe subwords like_earlier --size="$(sum_of "${earlier[@]}")" ${earlier_words[@]+"${earlier_words[@]}"}
elif [[ $subwords == bpe ]]; then
    step bpe subwords bpe --merges="$merges" ${vocabulary_threshold:+--vocabulary-threshold="$vocabulary_threshold"}
else
    step bpe subwords pieces --merges="$merges"
fi
if ((${#earlier_dictionaries[@]} > 0)); then
    step bin binarise with_dictionaries --dictionaries="$(sum_of "${earlier_dictionaries[@]}")"
else
    separate=${separate_dictionaries:+--separate-dictionaries}
    step bin binarise own_bin "${separate:---joined-dictionary}"
fi
run_steps
ready
