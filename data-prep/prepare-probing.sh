#!/usr/bin/env bash
# Prepares the probing tasks of Conneau et al. 2018 from SentEval's files, about 10 MB each. --out gets a
# folder a task, with text/ (label, tab, sentence) and bin/ for fairseq-train.
#
#     bash data-prep/prepare-probing.sh
#     bash data-prep/prepare-probing.sh --from FOLDER --tasks bigram_shift,word_content

. -- "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
all=sentence_length,word_content,tree_depth,top_constituents,bigram_shift,past_present,subj_number,obj_number
all+=,odd_man_out,coordination_inversion
option tasks $all NAMES "tasks, by comma"
option min_count 1 N1 "words that training has fewer than N times become <unk>"
begin "$@"

IFS=, read -r -a chosen <<<"$tasks"
for task in "${chosen[@]}"; do
    [[ ,$all, == *",$task,"* ]] || wrong "--tasks $tasks: unknown '$task'; choose from ${all//,/, }"
    [[ ",$tasks," != *",$task,"*",$task,"* && ",$tasks," != *",$task,$task,"* ]] || wrong "--tasks $tasks: '$task' is given twice"
    [[ -z $from || -f $from/$task.txt ]] || fail "$from has no $task.txt; put it there, or name the tasks it has with --tasks"
done

text() { # --task=TASK: the published file has a split, a label and a sentence a line
    local task=${1#*=} out=$base
    fetch "$task.txt" none "https://raw.githubusercontent.com/facebookresearch/SentEval/main/data/probing/$task.txt" \
        "https://github.com/facebookresearch/SentEval/raw/main/data/probing/$task.txt"
    run probing read "$got" "$tmp"
}

binarise() { run probing binarise "$@" "$out/text" "$tmp"; }

base=$out
for check in yes ""; do # all are checked before the first is prepared
    for task in "${chosen[@]}"; do
        out=$base/$task folders=() titles=() works=()
        step text "$task: read" text --task="$task" ${from:+--file="$(sum_of "$from/$task.txt")"}
        step bin "$task: binarise" binarise --min-count="$min_count"
        if [[ -n $check ]]; then keep_another_corpus; else mkdir -p -- "$out" && run_steps; fi
    done
done
for task in "${chosen[@]}"; do echo "ready: fairseq-train $(quoted "$base/$task/bin")"; done
