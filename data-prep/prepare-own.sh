#!/usr/bin/env bash
# Prepares translations of your own: a folder with train, valid and test as plain text, one sentence per
# line, each in two files such as train.de and train.en, or gzipped (train.de.gz).
#
#     bash data-prep/prepare-own.sh --from FOLDER --source de --target en --out data/mine
#
# To fine-tune a model, prepare the text like the corpus it was trained on:
#
#     bash data-prep/prepare-own.sh --from FOLDER --source de --target en --out data/tuned \
#         --like data/multi30k

. -- "$(dirname -- "${BASH_SOURCE[0]}")/translation.sh"
corpus=own
option source "" LANG "source language, as in de"
option target "" LANG "target language, as in en"
option tokeniser none "none|moses" "none: sentencepiece splits the untokenised text; moses: as in the papers' corpora, with jieba for Chinese"
option lowercase "" flag "lowercase both sides"
option max_length 250 N1 "largest length of a training sentence, in words, or in letters for scripts without spaces"
option max_ratio 9 X "largest ratio of the lengths of both sides in training"
option subwords "" "bpe|sentencepiece" "with --tokeniser moses: subword-nmt's BPE (default) or sentencepiece"
option merges 8000 N1 "sentencepiece pieces, or BPE merges, for both sides"
option separate_dictionaries "" flag "one dictionary per language instead of a joined one"
option like "" FOLDER "use subwords and dictionaries of this prepared corpus, to fine-tune its models"
begin "$@"

for name in source target; do
    [[ ${!name} =~ ^[A-Za-z0-9_][A-Za-z0-9_@-]*$ ]] || wrong "--$name '${!name}' is not a language code; give one such as de"
done
[[ $source != "$target" ]] || wrong "--source and --target are both $source"
[[ -n $from ]] || wrong "--from: give the folder with train.$source, train.$target and so on"
for name in tokeniser lowercase subwords merges separate_dictionaries; do
    [[ -z $like || $given != *" $name "* ]] || wrong "--${name//_/-}: --like sets it already; leave it out"
done
if [[ $tokeniser == none ]]; then
    [[ $subwords != bpe ]] || wrong "--subwords bpe needs tokens; add --tokeniser moses"
    subwords=sentencepiece
fi
: "${subwords:=bpe}"
learn="learn-escaped" # the papers' corpora keep their bytes
texts_given=()
for name in {train,valid,test}."$source" {train,valid,test}."$target"; do
    own_text "$name"
    texts_given+=("$got")
done

rules=(--nfc --normalise)
[[ $tokeniser == moses ]] || rules=(--tokeniser=none --nfc)
[[ -z $lowercase ]] || rules+=(--lowercase)
earlier=() earlier_dictionaries=() pieces=()
# Sets moses and the variables above, which depend on the languages and the corpus of --like.
decided=$(run own --source="$source" --target="$target" --tokeniser="$tokeniser" --like="$like" \
    "${texts_given[0]}" "${texts_given[3]}") || exit 2
eval "$decided"

raw() {
    local i=0 split
    for split in train valid test; do
        collect $split plain "${texts_given[i]}" "${texts_given[i + 3]}"
        i=$((i + 1))
    done
    pairs "$tmp"
}

like_earlier() { # --size=SUM [--pieces]
    local file
    for file in "${earlier[@]}"; do cp -- "$file" "$tmp"; done
    segment "those of $(dirname -- "${earlier[0]%/*}")" "$tmp/${earlier[0]##*/}" "$tmp/${earlier[1]##*/}"
}

own_bin() { # --joined-dictionary, --separate-dictionaries, or --all-pieces of a joint sentencepiece model
    case $1 in
        --joined-dictionary) preprocess "$1" ;;
        --separate-dictionaries) preprocess ;;
        --all-pieces)
            run subwords dictionary "$out/bpe/sentencepiece.model" "$out/bpe/vocab."{"$source","$target"} >"$tmp/pieces"
            preprocess --joined-dictionary --srcdict "$tmp/pieces"
            rm -- "$tmp/pieces"
            ;;
    esac
}

with_dictionaries() { # --dictionaries=SUM
    to_bin --srcdict "${earlier_dictionaries[0]}" --tgtdict "${earlier_dictionaries[1]}"
    echo "dictionaries of ${earlier_dictionaries[0]%/*}, $(lines "$tmp/dict.$source.txt") and" \
        "$(lines "$tmp/dict.$target.txt") types; $(run subwords unknown "$out/bpe" "$tmp"/dict.{"$source","$target"}.txt)"
}

step raw fetch raw --files="$(sum_of_texts "${texts_given[@]}")"
normalise=tokenise
[[ " ${rules[*]} " != *" --tokeniser=none "* ]] || normalise="normalise"
step tok "$normalise" tokenise "${rules[@]}"
step clean filter filter --max-length="$max_length" --max-ratio="$max_ratio" ${counted:+--count-letters="$counted"}
if [[ -n $like ]]; then
    step bpe subwords like_earlier --size="$(sum_of "${earlier[@]}")" ${pieces[@]+"${pieces[@]}"}
    step bin binarise with_dictionaries --dictionaries="$(sum_of "${earlier_dictionaries[@]}")"
else
    if [[ $subwords == bpe ]]; then step bpe subwords bpe --merges="$merges"; else step bpe subwords pieces --merges="$merges"; fi
    dictionaries=--joined-dictionary
    [[ $subwords == bpe ]] || dictionaries=--all-pieces
    [[ -z $separate_dictionaries ]] || dictionaries=--separate-dictionaries
    step bin binarise own_bin "$dictionaries"
fi
run_steps
ready
