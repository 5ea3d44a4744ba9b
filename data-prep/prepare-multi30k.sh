#!/usr/bin/env bash
# Prepares Multi30k task 1: image captions, German-English, 29,000 pairs, 1.3 MB to download, for
# research only (Flickr30k terms).
#
#     bash data-prep/prepare-multi30k.sh
#     bash data-prep/prepare-multi30k.sh --out data/multi30k_en_de --lowercase --merges 10000

. -- "$(dirname -- "${BASH_SOURCE[0]}")/translation.sh"
source=de target=en
option merges 8000 N1 "BPE merges for both sides"
option lowercase "" flag "lowercase both sides"
begin "$@"

get() { # NAME SHA256: checksum of the text, because mirrors compress it again
    fetch "$1" "text-sha256:$2" \
        "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/$1" \
        "https://github.com/multi30k/dataset/raw/master/data/task1/raw/$1"
    files+=("$got")
}

raw() {
    local files=()
    get train.de.gz 2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72
    get train.en.gz 460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6
    get val.de.gz 660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660
    get val.en.gz 1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227
    get test_2016_flickr.de.gz 4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16
    get test_2016_flickr.en.gz 399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182
    collect train plain "${files[0]}" "${files[1]}"
    collect valid plain "${files[2]}" "${files[3]}"
    collect test plain "${files[4]}" "${files[5]}"
    pairs "$tmp"
}

step raw fetch raw
step tok tokenise tokenise --normalise ${lowercase:+--lowercase}
step clean filter filter --max-length=250 --max-ratio=9
step bpe subwords bpe --merges="$merges"
step bin binarise preprocess --joined-dictionary
run_steps
ready
