#!/usr/bin/env bash
# Prepares pairs of logical formulas (Bowman et al. 2014) for a classifier of their relation. By default
# the script generates a set by the procedure of that paper. Li et al. 2021 refer to the published set:
# --published downloads it, and --from reads its files train0 to train12 (and test0 to test12, if they
# exist), plain or gzipped. The folder --out then has pairs/ (the published format, one file per length),
# split/, and bin/ for fairseq-train.
#
#     bash data-prep/prepare-logic.sh
#     bash data-prep/prepare-logic.sh --published --out data/logic-published
#     bash data-prep/prepare-logic.sh --from FOLDER --out data/logic-published

. -- "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
option published "" flag "download the published pairs instead of generating a set"
option draws "" N1 "number of pairs to generate, duplicates included (500000)"
option seed 1 N0 "seed of the pairs and of the split"
option train_operators 6 N1 "largest number of operators in a training or validation pair"
begin "$@"
[[ -z $from || -z $published ]] || wrong "--published has no effect with --from; leave out one of them"
[[ -z $published || -z $draws ]] || wrong "--draws has no effect with --published; leave out one of them"
[[ -z $from || -z $draws ]] || wrong "--draws has no effect with --from; leave out one of them"
((train_operators <= 12)) || wrong "--train-operators $train_operators: must be at most 12"

logic() { run logic "$@" "$tmp"; }
published() { run logic read "$@" "$from" "$tmp"; }

get() { # NAME SHA256
    fetch "$1" "text-sha256:$2" \
        "https://raw.githubusercontent.com/sleepinyourhat/vector-entailment/master/propositionallogic/$1"
}

download_pairs() {
    get train0 6b7679d24a5121e747bbb6e1606c33773ef2803d2f1e3e5961f396bfe6d5ead1
    get train1 b18140de23966481c20d6d4cac1f014322f760d6f891f643ff4beca48df1d347
    get train2 b08cfe4e89fa941d053b7ba229f3743d25d0a73235c628bf45da645336ecc22a
    get train3 ab0dd5694b97815ed29d2be7016790ba78b5173b68df5702ed4d0f9cad087041
    get train4 ca53b91edcb966330ca6a4241ca313932f3dd897ce7af18b2446e6c551bb63fc
    get train5 8c6db46c7527aea7f685400075c2cebad2a36acb4904371c052827f3769baa00
    get train6 ab507a99dcd2f7a2c4a3c81fbdbf0e55e1169d48f1be177ee8278778f34cf141
    get train7 939a58dfb0ca552eedf479c4db414e115da88d9a5e665cf101a35dfa735d1d51
    get train8 469f3e45b28a63ddc48f687d9b8a6813f431f8cd38366c90facf8ea6e677dc34
    get train9 b65a324de9862d74de4165696b5570342f5e323eb95ceccb679959a71978d769
    get train10 dd50e0c545773f84767c4ecde1a4d331217e7a8cc2ecfb487a80525d05b73e1a
    get train11 18012480bb981a6d03cb3225b0e5761b84df9e4e2a659b5fdf911e0d0b35993e
    get train12 cfeced4bcf2c4364fec121b1c97cbd59a535a377d6123bd280400d627da9ec4c
    get test0 0f0f47ea2699b52c8e49d84466afdae457111320669b328e752b690d21dab0ef
    get test1 d846fd8e2e10c44b95796cd31a3ea9056bd2ab7e510447e92172d252b5a4ebcf
    get test2 74d3b9346bbdff39e9f6bd81bb84446309b3918e4d6dbae820280958c935fb82
    get test3 c22eb4b2120fd2599eea1772ff2983e44b5e5501f17bfedc7f526ab6ddea9557
    get test4 171a5b9ff84c8c8972662d7ee84d9bae88a0b0caf121c779e1898d08ff23d056
    get test5 4456aab62f4189a95645822d7fd22b8b12ebadc15679fb37ed93921d1ee11004
    get test6 b99fa4c2b48db710213cbfcf948ab08fdaf327c07f5e7fa978747f1cf73c53d0
    get test7 9951b19945ea6b7b388118b05ac497b197aba7e24fbd501c5d9cf71f57433da5
    get test8 8b653190922c9b5902339714e79d22654e0f34e61d691e0d592589a92882bc30
    get test9 6d404315b4e0b15e70084f621f7e9677deebf7378016b0df95fbb63487851ed5
    get test10 bb3b3d312bb3223bdad030695d6004dc9d1d6131fe26a5531f2e54cc1bd1e780
    get test11 f6ee99fac9b1459448f6b2dc0a263fab7493d9a1e05ed1d32e0674031aa4fda5
    get test12 37d63e62b894cd2f25977d3092c71da23244cbadcfa12909183f57da938abb9f
    run logic read "$out/download" "$tmp"
}

if [[ -n $published ]]; then
    step pairs fetch download_pairs
elif [[ -n $from ]]; then
    step pairs read published --files="$(sum_of "$from/"{train,test}{0,1,2,3,4,5,6,7,8,9,10,11,12}{,.gz})"
else
    step pairs generate logic generate --version=1 --draws="${draws:-500000}" --seed="$seed"
fi
split() { logic split "$@" "$out/pairs"; }
binarise() { logic binarise "$@" "$out/split"; }
step split split split --seed="$seed" --train-operators="$train_operators"
step bin binarise binarise --seed="$seed" --train-operators="$train_operators"
run_steps
echo "ready: fairseq-train $(quoted "$out/bin")"
