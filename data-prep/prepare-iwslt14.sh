#!/usr/bin/env bash
# Prepares IWSLT14 German-English, TED talks: 160,000 pairs, about 20 MB to download, CC BY-NC-ND.
#
#     bash data-prep/prepare-iwslt14.sh
#
# Zheng et al. 2021 follow "standard practice" with 160k/7k/7k pairs, and about 9k BPE types for the source
# and 7k for the target. This is fairseq's recipe. Titles and descriptions of talks stay in the training
# text. The text is tokenised by Moses' rules without normalisation, and lowercased. Pairs have 1 to 175
# tokens on each side and a ratio of at most 1.5. Every 23rd training pair that passes this filter is held
# out as valid. 10,000 merges are learned jointly; dictionaries are separate. The paper leaves two choices
# open: here the tokeniser is sacremoses, a port of the Perl original, and entities in the XML files
# (&amp;) are resolved, which the recipe does not do.

. -- "$(dirname -- "${BASH_SOURCE[0]}")/translation.sh"
source=de target=en
option merges 10000 N1 "BPE merges for both sides"
begin "$@"

raw() {
    fetch de-en.tgz md5:10936dfdf616504ddbd844e91b94ef4a \
        http://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz \
        https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz
    local set sets=(TED.dev2010 TEDX.dev2012 TED.tst2010 TED.tst2011 TED.tst2012) members=() files=() side
    for side in de en; do
        members+=("de-en/train.tags.de-en.$side")
        for set in "${sets[@]}"; do members+=("de-en/IWSLT14.$set.de-en.$side.xml"); done
    done
    unpack "$got" "${members[@]}"
    for set in "${sets[@]}"; do files+=("$tmp/unpacked/de-en/IWSLT14.$set.de-en."{de,en}.xml); done
    collect train talks "$tmp/unpacked/de-en/train.tags.de-en."{de,en}
    collect test segments "${files[@]}"
    mv -- "$tmp/train."* "$tmp/unpacked"
    for side in de en; do # the filter for valid counts tokens
        in_parts "${moses_rules[@]}" --language=$side -- "$tmp/unpacked/train.$side"
        mv -- "$tmp/train.$side" "$tmp/unpacked/tokens.$side"
    done
    run choose hold-out --every=23 --max-length=175 --max-ratio=1.5 "$tmp/unpacked/train."{de,en} \
        "$tmp/unpacked/tokens."{de,en} "$tmp/train."{de,en} "$tmp/valid."{de,en}
    rm -r -- "$tmp/unpacked"
    pairs "$tmp"
}

tokens() {
    local side
    for side in de en; do
        in_parts "${moses_rules[@]}" --language=$side -- "$out/raw/"{train,valid}.$side
        in_parts "${moses_rules[@]}" --language=$side --straight-apostrophes -- "$out/raw/test.$side"
    done
    pairs "$tmp"
}

moses_rules=("$python" -m diverse_mha.corpora.tokenise --lowercase)
step raw fetch raw
step tok tokenise tokens --lowercase
step clean filter filter --max-length=175 --max-ratio=1.5
step bpe subwords bpe --merges="$merges"
step bin binarise preprocess
run_steps
ready
