#!/usr/bin/env bash
# Prepares Tatoeba German-English: short sentences that volunteers of tatoeba.org translated, release
# v2023-04-12 of OPUS, about 10 MB to download (an estimate), CC BY 2.0 FR; name tatoeba.org as the source.
#
#     bash data-prep/prepare-tatoeba.sh
#     bash data-prep/prepare-tatoeba.sh --from FOLDER --out data/tatoeba-other
#
# FOLDER has the archive de-en.txt.zip. For another release it has the texts Tatoeba.de-en.de and
# Tatoeba.de-en.en, plain or gzipped. No checksum is known for the archive, so a changed archive is not
# detected. The sha256 of a download is printed.
#
# Tatoeba has no official sets, and many sentences have several translations. A random split would put the
# same sentence into train and test. Here pairs that share a German or an English sentence, directly or
# through other pairs, form a group, and a group is never divided. Groups of at most 10 pairs are drawn at
# random for valid and test. All other pairs are for training. Pairs with an empty side and repeated pairs
# are dropped first. Sentences are compared by their tokens, so that quotation marks do not tell them apart.
# The later steps are those of prepare-multi30k.sh.

. -- "$(dirname -- "${BASH_SOURCE[0]}")/translation.sh"
source=de target=en
option merges 8000 N1 "BPE merges for both sides"
option valid 2000 N1 "pairs to hold out as valid"
option test 2000 N1 "pairs to hold out as test"
begin "$@"
archive=de-en.txt.zip files=()
if [[ -n $from && ! -f $from/$archive ]]; then
    [[ -n $(find -L "$from" -maxdepth 1 -name 'Tatoeba.de-en.*') ]] ||
        fail "$from has neither $archive nor Tatoeba.de-en.de and Tatoeba.de-en.en; put one of the two there"
    for side in de en; do
        own_text "Tatoeba.de-en.$side"
        files+=("$got")
    done
fi

raw() { # --valid=N --test=N
    local dropped
    if ((${#files[@]} == 0)); then
        fetch $archive none https://object.pouta.csc.fi/OPUS-Tatoeba/v2023-04-12/moses/$archive
        unpack "$got" Tatoeba.de-en.{de,en}
        files=("$tmp/unpacked/Tatoeba.de-en."{de,en})
    fi
    collect corpus plain "${files[@]}"
    dropped=$(run groups "${@:1:2}" --languages de en "$tmp/corpus."{de,en} "$tmp/"{train,valid,test}.{de,en}) || exit 2
    rm -rf -- "$tmp/unpacked" "$tmp/corpus."{de,en}
    echo "$(pairs "$tmp"); $dropped"
}

step raw fetch raw --valid="$valid" --test="$test" \
    ${from:+--files="$(sum_of_texts "${files[@]:-$from/$archive}")"}
step tok tokenise tokenise --normalise
step clean filter filter --max-length=250 --max-ratio=9
step bpe subwords bpe --merges="$merges"
step bin binarise preprocess --joined-dictionary
run_steps
ready
