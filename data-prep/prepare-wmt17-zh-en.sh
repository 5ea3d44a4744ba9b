#!/usr/bin/env bash
# Prepares WMT17 Chinese-English: 20.6 million pairs, 2.3 GB to download, 46 GB in all, for research;
# each corpus has terms of its own (statmt.org/wmt17).
#
#     bash data-prep/prepare-wmt17-zh-en.sh
#
# Li et al. 2021 take all of the parallel data "with maximum length limited to 50", about 20.6M pairs
# (li2018: 20M), newsdev2017 as valid, newstest2017 as test, and 32K merges. The paper leaves the following
# choices open. Here the data are News Commentary v12, UN v1.0 and the CWMT corpora of the task. Pairs have
# at most 50 words on each side and a ratio of at most 9. Chinese words are cut by jieba; English is
# tokenised by Moses' rules with normalisation. Each language has 32,000 merges and its own dictionary,
# because the scripts differ. The 108M parameters of li2021's base model agree with this choice: they leave
# 124.8 thousand rows for embeddings.

. -- "$(dirname -- "${BASH_SOURCE[0]}")/translation.sh"
source=zh target=en
option merges 32000 N1 "BPE merges for each side"
begin "$@"
require_jieba

cwmt() { # NAME SHA256: appends the texts of an archive to files; the Chinese ones end in _ch or _cn
    fetch "$1.zip" "sha256:$2" "https://huggingface.co/datasets/wmt/wmt18/resolve/main/cwmt-wmt/$1.zip"
    unpack "$got" "$1/*_c[hn].txt" "$1/*_en.txt"
    local chinese english line
    chinese=("$tmp/unpacked/$1/"*_c[hn].txt) english=("$tmp/unpacked/$1/"*_en.txt)
    ((${#chinese[@]} == ${#english[@]})) || fail "$got: the two sides differ: ${#chinese[@]} and ${#english[@]} files"
    for line in "${!chinese[@]}"; do files+=("${chinese[line]}" "${english[line]}"); done
}

raw() {
    local unpacked=$tmp/unpacked LC_ALL=C # sorts file names in the same order everywhere
    local files=("$unpacked/training/news-commentary-v12.zh-en."{zh,en} "$unpacked/en-zh/UNv1.0.en-zh."{zh,en})
    fetch training-parallel-nc-v12.tgz \
        sha256:2b45f30ef1d550d302fd17dd3a5cbe19134ccc4c2cf50c2dae534aee600101a2 \
        http{,s}://data.statmt.org/wmt17/translation-task/training-parallel-nc-v12.tgz
    unpack "$got" training/news-commentary-v12.zh-en.{zh,en}
    fetch UNv1.0.en-zh.tar.gz sha256:6f9c6401d5f0a49b20661324570d99fb86822d82f974748a361e19b9b886dd49 \
        https://storage.googleapis.com/tfds-data/downloads/uncorpus/UNv1.0.en-zh.tar.gz
    unpack "$got" en-zh/UNv1.0.en-zh.{zh,en}
    cwmt casia2015 c939f1528f96c419e9bbffb9caad869616a969e7704ffac896e245a02aff59a9
    cwmt casict2011 606adc0ccc5d8fc7c47f8589991286616342a1a379a571ce3038918731ae0182
    cwmt casict2015 eef8e25b297c1aff12ab24719247d3588e756d7a4e2c30d4d34fcb4d05ab1050
    cwmt datum2015 654afce6731485c40ce856514ab80cd2bfd836126bcaf48cdb911ebc32b021a4
    cwmt datum2017 737455c139596f4abf3b1da73bc38932b3ef9534549328eff47d867e29950ed2
    cwmt neu2017 9f63020b6990cde85f5387b745e3ae37f1d6a49848b90a49bae28219fb65395f
    fetch dev.tgz sha256:7a7deccf82ebb05ba508dba5eb21356492224e8f630ec4f992132b029b4b25e7 \
        http{,s}://data.statmt.org/wmt19/translation-task/dev.tgz
    unpack "$got" dev/news{dev,test}2017-zhen-{src.zh,ref.en}.sgm
    collect train plain "${files[@]}"
    collect valid segments "$unpacked/dev/newsdev2017-zhen-"{src.zh,ref.en}.sgm
    collect test segments "$unpacked/dev/newstest2017-zhen-"{src.zh,ref.en}.sgm
    rm -r -- "$unpacked"
    pairs "$tmp"
}

step raw fetch raw
step tok tokenise tokenise --normalise
step clean filter filter --max-length=50 --max-ratio=9
step bpe subwords bpe --merges="$merges" --apart
step bin binarise preprocess
run_steps
ready
