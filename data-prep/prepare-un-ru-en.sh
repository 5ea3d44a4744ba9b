#!/usr/bin/env bash
# Prepares the UN corpus v1.0 Russian-English: 2.5 million pairs drawn from 23 million, 2.5 GB to
# download, 25 GB in all, public domain; name the UN as the source, cite Ziemski et al. 2016.
#
#     bash data-prep/prepare-un-ru-en.sh
#
# Yun et al. 2021 draw 2.5M pairs at random from each training set of the United Nations Parallel Corpus
# v1.0, and take the official sets of 4,000 pairs for valid and test. The rest follows their IWSLT17
# setting, a BPE vocabulary of 16,384. The paper leaves the following choices open. Here pairs with text on
# both sides are drawn by a seed, before the length filter (250 tokens, ratio 9), which then drops a few.
# The text is tokenised by Moses' rules with normalisation. Each language has 16,384 sentencepiece BPE
# pieces and its own dictionary, because the scripts differ. No checksum is known for the archive of the
# official sets: its sha256 is printed, and each file must have 4,000 lines.

. -- "$(dirname -- "${BASH_SOURCE[0]}")/translation.sh"
source=ru target=en
option merges 16384 N1 "sentencepiece pieces for each side"
option sample 2500000 N1 "training pairs to draw at random"
option sample_seed 1 N0 "seed of the draw"
begin "$@"
sets=UNv1.0.testsets.tar.gz

raw() { # --sample=N --sample-seed=N
    fetch UNv1.0.en-ru.tar.gz sha256:f998570e7d60b87bf8648e50e854f150493eff4d7cf1133cf4781811bbe96566 \
        https://storage.googleapis.com/tfds-data/downloads/uncorpus/UNv1.0.en-ru.tar.gz
    unpack "$got" en-ru/UNv1.0.en-ru.{ru,en}
    fetch $sets none https://www.un.org/dgacm/sites/www.un.org.dgacm/files/files/UNCORPUS/$sets \
        https://stuncorpusprod.blob.core.windows.net/corpusfiles/$sets \
        "https://conferences.unite.un.org/UNCORPUS/en/DownloadFile?filename=$sets"
    unpack "$got" testsets/{devset/UNv1.0.devset,testset/UNv1.0.testset}.{ru,en}
    collect train plain "$tmp/unpacked/en-ru/UNv1.0.en-ru."{ru,en}
    collect --lines=4000 valid plain "$tmp/unpacked/testsets/devset/UNv1.0.devset."{ru,en}
    collect --lines=4000 test plain "$tmp/unpacked/testsets/testset/UNv1.0.testset."{ru,en}
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
