#!/usr/bin/env bash
# Prepares the UN corpus v1.0 Chinese-English: 2.5 million pairs drawn from 16 million, 1.4 GB to
# download, 11 GB in all, public domain; name the UN as the source, cite Ziemski et al. 2016.
#
#     bash data-prep/prepare-un-zh-en.sh
#
# Yun et al. 2021 draw 2.5M pairs at random from each training set of the United Nations Parallel Corpus
# v1.0, and take the official sets of 4,000 pairs for valid and test. The rest follows their IWSLT17
# setting, a BPE vocabulary of 16,384. The paper leaves the following choices open. Here pairs with text on
# both sides are drawn by a seed, before the length filter (250 tokens, ratio 9), which then drops a
# few. The text is tokenised by Moses' rules with normalisation, and by jieba for Chinese. Each
# language has 16,384 sentencepiece BPE pieces and its own dictionary, because the scripts differ. No
# checksum is known for the archive of the official sets: its sha256 is printed, and each file must have
# 4,000 lines.

. -- "$(dirname -- "${BASH_SOURCE[0]}")/translation.sh"
source=zh target=en
option merges 16384 N1 "sentencepiece pieces for each side"
option sample 2500000 N1 "training pairs to draw at random"
option sample_seed 1 N0 "seed of the draw"
begin "$@"
require_jieba
sets=UNv1.0.testsets.tar.gz

raw() { # --sample=N --sample-seed=N
    fetch UNv1.0.en-zh.tar.gz sha256:6f9c6401d5f0a49b20661324570d99fb86822d82f974748a361e19b9b886dd49 \
        https://storage.googleapis.com/tfds-data/downloads/uncorpus/UNv1.0.en-zh.tar.gz
    unpack "$got" en-zh/UNv1.0.en-zh.{zh,en}
    fetch $sets none https://www.un.org/dgacm/sites/www.un.org.dgacm/files/files/UNCORPUS/$sets \
        https://stuncorpusprod.blob.core.windows.net/corpusfiles/$sets \
        "https://conferences.unite.un.org/UNCORPUS/en/DownloadFile?filename=$sets"
    unpack "$got" testsets/{devset/UNv1.0.devset,testset/UNv1.0.testset}.{zh,en}
    collect train plain "$tmp/unpacked/en-zh/UNv1.0.en-zh."{zh,en}
    collect --lines=4000 valid plain "$tmp/unpacked/testsets/devset/UNv1.0.devset."{zh,en}
    collect --lines=4000 test plain "$tmp/unpacked/testsets/testset/UNv1.0.testset."{zh,en}
    draw "$@"
    rm -r -- "$tmp/unpacked"
}

step raw fetch raw --sample="$sample" --sample-seed="$sample_seed" ${from:+--files="$(sum_of "$from/$sets")"}
step tok tokenise tokenise --normalise
step clean filter filter --max-length=250 --max-ratio=9
step bpe subwords pieces --merges="$merges" --apart
step bin binarise preprocess
run_steps
ready
