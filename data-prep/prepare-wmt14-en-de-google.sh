#!/usr/bin/env bash
# Prepares WMT14 English-German as Google prepared it, tokenised and in BPE: 4.5 million pairs, about
# 1.5 GB to download, 5 GB in all, for research; each corpus has terms of its own (statmt.org/wmt14).
#
#     bash data-prep/prepare-wmt14-en-de-google.sh
#     bash data-prep/prepare-wmt14-en-de-google.sh --from FOLDER    # with wmt16_en_de.tar.gz
#
# Zheng et al. 2021 state 4.5M/3k/3k pairs and a shared vocabulary of about 32k. The text was published
# tokenised, filtered and in BPE, and is used unchanged, with a joined dictionary cut to 32,768 types
# as in fairseq's recipe. The archive's raw newstest2013 and newstest2014 are the references. The link to
# Google Drive has been reported broken at times; you can give the folder of a copy with --from.

. -- "$(dirname -- "${BASH_SOURCE[0]}")/translation.sh"
source=en target=de
as_published=--normalise # for corpus.json: how the published text was tokenised
begin "$@"

archive() { # the second URL may give a page that asks for confirmation instead of the file
    fetch wmt16_en_de.tar.gz md5:874ab6bbfe9c21ec987ed1b9347f95ec \
        "https://drive.usercontent.google.com/download?id=0B_bZck-ksdkpM25jRUN2X2UxMm8&export=download&confirm=t" \
        "https://drive.google.com/uc?export=download&id=0B_bZck-ksdkpM25jRUN2X2UxMm8"
}

references() { # [.tok]: newstest2013 as valid and newstest2014 as test
    archive
    unpack "$got" newstest201{3,4}"${1:-}".{en,de}
    collect valid plain "$tmp/unpacked/newstest2013${1:-}."{en,de}
    collect test plain "$tmp/unpacked/newstest2014${1:-}."{en,de}
    rm -r -- "$tmp/unpacked"
    pairs "$tmp"
}

subwords() {
    archive
    unpack "$got" train.tok.clean.bpe.32000.{en,de} newstest201{3,4}.tok.bpe.32000.{en,de}
    collect train plain "$tmp/unpacked/train.tok.clean.bpe.32000."{en,de}
    collect valid plain "$tmp/unpacked/newstest2013.tok.bpe.32000."{en,de}
    collect test plain "$tmp/unpacked/newstest2014.tok.bpe.32000."{en,de}
    rm -r -- "$tmp/unpacked"
    local side note="; the archive has no merges"
    for side in en de; do run subwords vocabulary <"$tmp/train.$side" >"$tmp/vocab.$side"; done
    if tar -tf "$got" bpe.32000 >/dev/null 2>&1; then
        unpack "$got" bpe.32000
        mv -- "$tmp/unpacked/bpe.32000" "$tmp/codes"
        rm -r -- "$tmp/unpacked"
        note=""
    fi
    echo "$(pairs "$tmp")$note"
}

step raw fetch references
step tok tokens references .tok
step bpe subwords subwords
step bin binarise preprocess --joined-dictionary --nwordssrc=32768 --nwordstgt=32768
run_steps
ready
