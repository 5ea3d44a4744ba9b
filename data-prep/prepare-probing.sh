#!/usr/bin/env bash
# Prepares the probing tasks of Conneau et al. 2018 from SentEval's files, about 10 MB each. The folder
# --out then has one folder per task, with text/ (label, tab, sentence) and bin/ for fairseq-train.
#
#     bash data-prep/prepare-probing.sh
#     bash data-prep/prepare-probing.sh --from FOLDER --tasks bigram_shift,word_content
#     bash data-prep/prepare-probing.sh --demo 500 --out data/probing-demo    # generated, in seconds

. -- "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
all=sentence_length,word_content,tree_depth,top_constituents,bigram_shift,past_present,subj_number,obj_number
all+=,odd_man_out,coordination_inversion
option tasks $all NAMES "tasks, separated by commas"
option demo "" N20 "generate N training sentences, labelled by length; all tasks get the same sentences"
option min_count 1 N1 "words that occur fewer than N times in the training text become <unk>"
begin "$@"
[[ -z $from || -z $demo ]] || wrong "--demo has no effect with --from; leave out one of them"

IFS=, read -r -a chosen <<<"$tasks"
for task in "${chosen[@]}"; do
    [[ ,$all, == *",$task,"* ]] || wrong "--tasks $tasks: unknown '$task'; choose from ${all//,/, }"
    [[ ",$tasks," != *",$task,"*",$task,"* && ",$tasks," != *",$task,$task,"* ]] || wrong "--tasks $tasks: '$task' is given twice"
    [[ -z $from || -f $from/$task.txt ]] || fail "$from has no $task.txt; put it there, or give --tasks with the tasks in that folder"
done

published() { # TASK: prints the git blob hash of SentEval's file
    case $1 in
        sentence_length) echo 9799e50a7579b5b60294b708cedc063aea16f0be ;;
        word_content) echo 596d6fc7c624a989342f5aef2fa035d0d84f65b7 ;;
        tree_depth) echo 91567ad524de360c38105afc39d29fb7ef6b5eb8 ;;
        top_constituents) echo 1d00fe9b16f71303af7f0471fa028077f742d8b0 ;;
        bigram_shift) echo 1226c0467bd342c92132dd2fd26e54b7bd066bd7 ;;
        past_present) echo d11394b28383bb1a8148670e33d39e5fcd326b16 ;;
        subj_number) echo dee5770953ad194ceafc68106bd9c071986c6d2a ;;
        obj_number) echo c5a6f758f2293d0ed0774de327ff8199322d12ee ;;
        odd_man_out) echo ca1ec154df17e366330c542b48bdca5cfa65bf1c ;;
        coordination_inversion) echo 281888217fd1ed7faef2c63c5350d2ff1b8e64ce ;;
    esac
}

text() { # --task=TASK [--demo=N]: a line of the published file has a split, a label and a sentence
    local task=${1#*=} out=$base sum=none
    if [[ -n $demo ]]; then
        run demo --form=labelled --version=2 --pairs="$demo" --seed=1 "$tmp"
        run probing read "$tmp/labelled.txt" "$tmp"
        rm -- "$tmp/labelled.txt"
        return
    fi
    [[ -n $from ]] || sum=git-blob:$(published "$task") # files of --from may differ from SentEval's
    fetch "$task.txt" "$sum" "https://raw.githubusercontent.com/facebookresearch/SentEval/main/data/probing/$task.txt" \
        "https://github.com/facebookresearch/SentEval/raw/main/data/probing/$task.txt"
    run probing read "$got" "$tmp"
}

binarise() { run probing binarise "$@" "$out/text" "$tmp"; }

base=$out
for check in yes ""; do # checks all tasks before it prepares the first
    for task in "${chosen[@]}"; do
        out=$base/$task folders=() titles=() works=()
        step text "$task: read" text --task="$task" ${demo:+--demo="$demo"} ${from:+--file="$(sum_of "$from/$task.txt")"}
        step bin "$task: binarise" binarise --min-count="$min_count"
        if [[ -n $check ]]; then keep_another_corpus; else mkdir -p -- "$out" && run_steps; fi
    done
done
for task in "${chosen[@]}"; do echo "ready: fairseq-train $(quoted "$base/$task/bin")"; done
