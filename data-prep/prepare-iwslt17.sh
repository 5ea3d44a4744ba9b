#!/usr/bin/env bash
# Prepares IWSLT17 German-English, TED talks: 206,000 pairs, about 20 MB to download, CC BY-NC-ND.
#
#     bash data-prep/prepare-iwslt17.sh
#
# Yun et al. 2021 state 223,162/8,130/1,116 "sentences" and a BPE vocabulary of 16,384. The published
# files hold 206,112 training sentences, and the paper's numbers are those of files in which mark-up
# lines were counted: valid and test fit 3 such lines per talk (7,887 + 3 * 81 and 1,080 + 3 * 12) if
# valid is dev2010 with tst2010 to tst2014, and test is tst2015; train fits 10 lines for each of 1,705
# talks. So that is the split here, with sentences only, without titles. Left open, and decided here: the
# archive of this language pair, since the multilingual one lacks tst2011 to tst2015; Moses tokenisation with
# normalisation; at most 250 tokens and a ratio of at most 9, which is Moses' default; 16,384
# sentencepiece BPE pieces and one dictionary for both sides; case is kept.

. -- "$(dirname -- "${BASH_SOURCE[0]}")/translation.sh"
source=de target=en
option merges 16384 N1 "sentencepiece pieces for both sides"
begin "$@"

raw() {
    fetch de-en.tgz md5:ca2b94d694150d4d6c5dc64c200fa589 \
        https://raw.githubusercontent.com/hlt-mt/WIT3/master/archive/2017-01-trnted/texts/de/en/de-en.tgz \
        https://wit3.fbk.eu/archive/2017-01-trnted/texts/de/en/de-en.tgz
    local set files=()
    for set in dev2010 tst2010 tst2011 tst2012 tst2013 tst2014 tst2015; do
        files+=("de-en/IWSLT17.TED.$set.de-en."{de,en}.xml)
    done
    unpack "$got" de-en/train.tags.de-en.{de,en} "${files[@]}"
    files=("${files[@]/#/$tmp/unpacked/}")
    collect train "talk sentences" "$tmp/unpacked/de-en/train.tags.de-en."{de,en}
    collect valid segments "${files[@]:0:12}"
    collect test segments "${files[@]:12:2}"
    rm -r -- "$tmp/unpacked"
    pairs "$tmp"
}

step raw fetch raw
step tok tokenise tokenise --normalise
step clean filter filter --max-length=250 --max-ratio=9
step bpe subwords pieces --merges="$merges"
step bin binarise preprocess --joined-dictionary
run_steps
ready
