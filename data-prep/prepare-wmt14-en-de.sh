#!/usr/bin/env bash
# Prepares WMT14 English-German from the sources: 4.5 million pairs, 1.7 GB to download, 10 GB in all,
# for research; each corpus has terms of its own (statmt.org/wmt14).
#
#     bash data-prep/prepare-wmt14-en-de.sh
#
# Li et al. 2018 and 2021 take newstest2013 as valid and newstest2014 as test, with 32,000 merges. li2018
# counts 4M training pairs, li2021 4.6M. The task's corpora, Europarl v7, Common Crawl and News Commentary
# v9, have 4.52M. The papers leave the rest open. This script takes all three corpora. The text is tokenised
# by Moses' rules with normalisation; words with dashes are not split. Pairs have at most 250 tokens on each
# side and a ratio of at most 9 (Moses' default). Merges are learned jointly. Dictionaries are separate: of
# the 88.0M parameters of li2021's base model, 43.9M remain for embeddings. That is 85.7 thousand rows of
# 512, too many for a shared dictionary, but not for three matrices over two dictionaries. newstest2014 is
# the full set of 3,003 pairs, as sacreBLEU's wmt14/full. The archive has it for German-English, so the
# files of source and reference are swapped.

. -- "$(dirname -- "${BASH_SOURCE[0]}")/translation.sh"
source=en target=de
option merges 32000 N1 "BPE merges for both sides"
begin "$@"

raw() {
    fetch training-parallel-europarl-v7.tgz \
        sha256:0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7 \
        http{,s}://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz
    unpack "$got" training/europarl-v7.de-en.{de,en}
    fetch training-parallel-commoncrawl.tgz \
        sha256:c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5 \
        http{,s}://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz
    unpack "$got" commoncrawl.de-en.{de,en}
    fetch training-parallel-nc-v9.tgz \
        sha256:cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485 \
        http{,s}://www.statmt.org/wmt14/training-parallel-nc-v9.tgz
    unpack "$got" training/news-commentary-v9.de-en.{de,en}
    fetch dev.tgz sha256:7a7deccf82ebb05ba508dba5eb21356492224e8f630ec4f992132b029b4b25e7 \
        http{,s}://data.statmt.org/wmt19/translation-task/dev.tgz
    unpack "$got" dev/newstest2013.{de,en} dev/newstest2014-deen-{src.de,ref.en}.sgm
    local unpacked=$tmp/unpacked
    collect train plain "$unpacked/training/europarl-v7.de-en."{en,de} "$unpacked/commoncrawl.de-en."{en,de} \
        "$unpacked/training/news-commentary-v9.de-en."{en,de}
    collect valid plain "$unpacked/dev/newstest2013."{en,de}
    collect test segments "$unpacked/dev/newstest2014-deen-"{ref.en,src.de}.sgm
    rm -r -- "$unpacked"
    pairs "$tmp"
}

step raw fetch raw
step tok tokenise tokenise --normalise
step clean filter filter --max-length=250 --max-ratio=9
step bpe subwords bpe --merges="$merges"
step bin binarise preprocess
run_steps
ready
