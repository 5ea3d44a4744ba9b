# shellcheck shell=bash
# The steps of running text for language models. They write raw/, the text as published, and bin/, the
# input of fairseq-train --task exact_language_modeling.
. -- "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

collect() { # SPLIT FILE
    run collect --to "$tmp/$1.txt" --from "$2"
}

tokens() { # [--SPLIT=N ...]: prints the number of words and line ends, and checks that it is N
    run running_text check "$@" "$tmp"
}

preprocess() { # [--min-count=N]
    fairseq_preprocess --only-source ${1:+--thresholdsrc "${1#*=}"} \
        --trainpref "$out/raw/train.txt" --validpref "$out/raw/valid.txt" --testpref "$out/raw/test.txt"
    run running_text describe --corpus="$corpus" "$@" "$out/raw" "$tmp"
}

ready() { echo "ready: fairseq-train $(quoted "$out/bin") --task exact_language_modeling"; }
