#!/usr/bin/env bash
# Prepares WMT17 German-English: 2.5 million pairs drawn from 5.9 million, 1.9 GB to download, 7 GB in
# all, for research; each corpus has terms of its own (statmt.org/wmt17).
#
#     bash data-prep/prepare-wmt17-de-en.sh
#
# Yun et al. 2021 draw 2.5M pairs at random from the training set and take "the whole" sets for valid,
# 16,573 pairs, and test, 3,004. newssyscomb2009 with newstest2008 to newstest2013 has 16,573 pairs, and
# newstest2017 has 3,004. The rest follows the IWSLT17 setting. The paper leaves the following choices open.
# Here the training set has all corpora of the task. Pairs with text on both sides are drawn by a seed,
# before the length filter (250 tokens, ratio 9), which then drops a few. The text is tokenised by Moses'
# rules with normalisation. Both sides share 16,384 sentencepiece BPE pieces and one dictionary.

. -- "$(dirname -- "${BASH_SOURCE[0]}")/translation.sh"
source=de target=en
option merges 16384 N1 "sentencepiece pieces for both sides"
option sample 2500000 N1 "training pairs to draw at random"
option sample_seed 1 N0 "seed of the draw"
begin "$@"

raw() { # --sample=N --sample-seed=N
    fetch training-parallel-europarl-v7.tgz \
        sha256:0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7 \
        http{,s}://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz
    unpack "$got" training/europarl-v7.de-en.{de,en}
    fetch training-parallel-commoncrawl.tgz \
        sha256:c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5 \
        http{,s}://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz
    unpack "$got" commoncrawl.de-en.{de,en}
    fetch training-parallel-nc-v12.tgz \
        sha256:2b45f30ef1d550d302fd17dd3a5cbe19134ccc4c2cf50c2dae534aee600101a2 \
        http{,s}://data.statmt.org/wmt17/translation-task/training-parallel-nc-v12.tgz
    unpack "$got" training/news-commentary-v12.de-en.{de,en}
    fetch rapid2016.tgz sha256:41557dd5d8f0ed3a6d98bce3b798b1a9d3b68361eb99d902329ddbb943a6b55a \
        http{,s}://data.statmt.org/wmt18/translation-task/rapid2016.tgz
    unpack "$got" rapid2016.de-en.{de,en}
    fetch dev.tgz sha256:7a7deccf82ebb05ba508dba5eb21356492224e8f630ec4f992132b029b4b25e7 \
        http{,s}://data.statmt.org/wmt19/translation-task/dev.tgz
    local set files=() unpacked=$tmp/unpacked
    for set in newssyscomb2009 news-test2008 newstest2009 newstest2010 newstest2011 newstest2012 newstest2013; do
        files+=("dev/$set."{de,en})
    done
    unpack "$got" "${files[@]}" dev/newstest2017-deen-{src.de,ref.en}.sgm
    collect train plain "$unpacked/training/europarl-v7.de-en."{de,en} "$unpacked/commoncrawl.de-en."{de,en} \
        "$unpacked/training/news-commentary-v12.de-en."{de,en} "$unpacked/rapid2016.de-en."{de,en}
    collect valid plain "${files[@]/#/$unpacked/}"
    collect test segments "$unpacked/dev/newstest2017-deen-"{src.de,ref.en}.sgm
    draw "$@"
    rm -r -- "$unpacked"
}

step raw fetch raw --sample="$sample" --sample-seed="$sample_seed"
step tok tokenise tokenise --normalise
step clean filter filter --max-length=250 --max-ratio=9
step bpe subwords pieces --merges="$merges"
step bin binarise preprocess --joined-dictionary
run_steps
ready
