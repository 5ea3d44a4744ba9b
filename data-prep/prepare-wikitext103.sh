#!/usr/bin/env bash
# Prepares WikiText-103 (Merity et al. 2017), good and featured Wikipedia articles: 103 million words of
# 267,735 types, 190 MB to download, CC BY-SA. The published text is tokenised, with rare words replaced
# by <unk>, and is used unchanged: perplexities are per word, with end-of-sentence tokens.
#
#     bash data-prep/prepare-wikitext103.sh
#     bash data-prep/prepare-wikitext103.sh --from FOLDER    # with the archive, or wiki.train.tokens ...

. -- "$(dirname -- "${BASH_SOURCE[0]}")/running-text.sh"
begin "$@"

raw() {
    local split place=$tmp/unpacked/wikitext-103
    if [[ -n $from && ! -f $from/wikitext-103-v1.zip && -f $from/wiki.train.tokens ]]; then
        place=$from
    else
        fetch wikitext-103-v1.zip sha256:242ba0f20b329cfdf1ccc61e9e9e5b59becf189db7f7a81cd2a0e2fc31539590 \
            https://wikitext.smerity.com/wikitext-103-v1.zip \
            https://s3.amazonaws.com/research.metamind.io/wikitext/wikitext-103-v1.zip
        unpack "$got" wikitext-103/wiki.{train,valid,test}.tokens
    fi
    for split in train valid test; do collect $split "$place/wiki.$split.tokens"; done
    rm -rf -- "$tmp/unpacked"
    tokens --train=103227021 --valid=217646 --test=245569
}

step raw fetch raw
step bin binarise preprocess
run_steps
ready
