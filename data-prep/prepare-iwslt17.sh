#!/usr/bin/env bash
# Prepares IWSLT17 German-English, TED talks: 206,000 pairs, about 20 MB to download, CC BY-NC-ND.
#
#     bash data-prep/prepare-iwslt17.sh
#
# Yun et al. 2021 state 223,162/8,130/1,116 "sentences" and a BPE vocabulary of 16,384. The published files
# hold 206,112 training sentences. The paper's numbers include lines of mark-up: 3 per talk in valid and
# test (7,887 + 3 * 81 and 1,080 + 3 * 12) if valid is dev2010 with tst2010 to tst2014 and test is tst2015,
# and 10 for each of the 1,705 talks in train. The split here is the same, with sentences only, without
# titles. The paper leaves the rest open. This script takes the archive of this language pair, because the
# multilingual archive lacks tst2011 to tst2015. The text is tokenised by Moses' rules with normalisation,
# and case is kept. Pairs have at most 250 tokens on each side and a ratio of at most 9, Moses' default.
# Both sides share 16,384 sentencepiece BPE pieces and one dictionary.

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
