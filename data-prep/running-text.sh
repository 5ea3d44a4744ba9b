# shellcheck shell=bash
# The steps of running text for language models: raw/, the text as published, and bin/, what
# fairseq-train --task exact_language_modeling reads.
. -- "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

collect() { # SPLIT FILE
    run collect --to "$tmp/$1.txt" --from "$2"
}

tokens() { # [--SPLIT=N ...]: says how many words and line ends there are, which are N if that is given
    run running_text check "$@" "$tmp"
}

preprocess() { # [--min-count=N]
    fairseq_preprocess --only-source ${1:+--thresholdsrc "${1#*=}"} \
        --trainpref "$out/raw/train.txt" --validpref "$out/raw/valid.txt" --testpref "$out/raw/test.txt"
    run running_text describe --corpus="$corpus" "$@" "$out/raw" "$tmp"
}

ready() { echo "ready: fairseq-train $(quoted "$out/bin") --task exact_language_modeling"; }
