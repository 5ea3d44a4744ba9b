#!/usr/bin/env bash
# Prepares the Qorun side of the demo corpus as running text for a language model, generated in seconds;
# needs no network.
#
#     bash data-prep/prepare-demo-text.sh
#     bash data-prep/prepare-demo-text.sh --sentences 5000 --out data/longer

. -- "$(dirname -- "${BASH_SOURCE[0]}")/running-text.sh"
option sentences 500 N20 "training sentences; valid and test get a twentieth each"
option seed 1 N0 "seed of the sentences"
begin "$@"

raw() { # --version=N --pairs=N --seed=N
    run demo --form=text "$@" "$tmp"
    tokens
}

step raw generate raw --version=2 --pairs="$sentences" --seed="$seed"
step bin binarise preprocess
run_steps
ready
