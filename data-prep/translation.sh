# shellcheck shell=bash
# The steps of a translation corpus, for the scripts that set $source and $target, the languages. They write
#   raw/    train, valid and test as published, one sentence per line; raw/test.$target is sacreBLEU's reference
#   tok/    tokens
#   clean/  the training pairs that pass the length filter
#   bpe/    subwords, with their model and each side's vocabulary
#   bin/    the input of fairseq-train, and corpus.json, which records how it was made
. -- "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

source="" target=""
moses=() # language codes for the tokenisers, if they differ from the languages
learn=learn # command of the module subwords; learn-escaped: pieces restore any text

# collect [--lines=N] SPLIT MARKUP FILE...: writes the sentences of the files, which are source and target
# in turn, to a split.
collect() {
    local known=()
    [[ $1 != --lines=* ]] || { known=("$1") && shift; }
    run collect ${known[@]+"${known[@]}"} --markup="$2" --to "$tmp/$1.$source" "$tmp/$1.$target" --from "${@:3}"
}

pairs() { # FOLDER: prints the sizes of its splits
    local split summary=""
    for split in train valid test; do
        [[ ! -f $1/$split.$source ]] || summary+="${summary:+, }$(lines "$1/$split.$source") $split"
    done
    echo "$summary pairs"
}

tokenise() { # OPTIONS of our tokeniser: Moses' rules by sacremoses, or jieba for Chinese
    local i=0 side split files
    for side in "$source" "$target"; do
        files=()
        for split in train valid test; do files+=("$out/raw/$split.$side"); done
        in_parts "$python" -m diverse_mha.corpora.tokenise --language="${moses[i]:-$side}" "$@" -- "${files[@]}"
        i=$((i + 1))
    done
    pairs "$tmp"
}

filter() { # --max-length=N --max-ratio=X: drops training pairs as Moses' clean-corpus-n does
    run choose filter "$@" "$out/tok/train.$source" "$out/tok/train.$target" "$tmp/train.$source" "$tmp/train.$target"
}

# Learn and apply subwords, with subword-nmt (bpe) or sentencepiece (pieces): for both sides together, or
# with --apart for each side.
bpe() { # --merges=N [--apart]
    local models summary
    if (($# == 1)); then
        models=("$tmp/codes" "$tmp/codes")
        learn_bpe "$tmp/codes" "$out/clean/train.$source" "$out/clean/train.$target"
    else
        models=("$tmp/codes.$source" "$tmp/codes.$target")
        learn_bpe "${models[0]}" "$out/clean/train.$source"
        learn_bpe "${models[1]}" "$out/clean/train.$target"
    fi
    summary="$(merges_of "${models[@]}") BPE merges${2:+ per side}"
    [[ $(merges_of "${models[@]}") == "$(thousands "${1#*=}")" ]] ||
        summary+=" ($(thousands "${1#*=}") requested, but no further pair occurs twice)"
    segment "$summary" "${models[@]}"
    note_rare "${1#*=}"
}

learn_bpe() { # CODES FILE...
    cat "${@:2}" | "$python" -m subword_nmt.learn_bpe -s "$merges" >"$1" 2>"$tmp/log" ||
        fail "$2 is too small to learn subwords from"
    rm -f -- "$tmp/log"
}

merges_of() { # CODES CODES: prints the number of merges in each, after a line with the version
    local first second
    first=$(thousands "$(($(wc -l <"$1") - 1))") second=$(thousands "$(($(wc -l <"$2") - 1))")
    if [[ $first == "$second" ]]; then echo "$first"; else echo "$first and $second"; fi
}

pieces() { # --merges=N [--apart]
    local models summary other asked
    if (($# == 1)); then
        models=("$tmp/sentencepiece.model" "$tmp/sentencepiece.model")
        summary=$(run subwords "$learn" "${1#*=}" "${models[0]}" "$out/clean/train.$source" "$out/clean/train.$target") || exit 2
    else
        models=("$tmp/sentencepiece.model.$source" "$tmp/sentencepiece.model.$target")
        summary=$(run subwords "$learn" "${1#*=}" "${models[0]}" "$out/clean/train.$source") || exit 2
        other=$(run subwords "$learn" "${1#*=}" "${models[1]}" "$out/clean/train.$target") || exit 2
        [[ $other == "$summary" ]] || summary+=" and $other"
    fi
    [[ $summary == "$(thousands "${1#*=}")" ]] || asked=" ($(thousands "${1#*=}") requested, but no further pair occurs twice)"
    segment "$summary sentencepiece pieces${2:+ per side}${asked:-}" "${models[@]}"
    note_rare "${1#*=}"
}

note_rare() { # N: prints a note if less than half of the N requested subwords occur five times in train
    local often
    often=$(awk '{ count[$1] += $2 } END { for (piece in count) often += count[piece] >= 5; print often + 0 }' \
        "$tmp/vocab.$source" "$tmp/vocab.$target")
    ((often * 2 >= $1)) ||
        note "note: only $(thousands "$often") of $(thousands "$1") subwords occur five times or more in train, which has \
$(lines "$tmp/train.$source") pairs; rare subwords are hardly learned, so give fewer: --merges N"
}

segment() { # SUMMARY MODEL MODEL: segments train of clean/, and valid and test of tok/
    local summary="$1; different subwords:" i=0 side command file long
    for side in "$source" "$target"; do
        i=$((i + 1))
        command=("$python" -m subword_nmt.apply_bpe --codes "${*:i+1:1}")
        if [[ ${2##*/} != codes* ]]; then
            command=("$python" -m diverse_mha.corpora.subwords apply "${*:i+1:1}")
            run subwords blanks "${*:i+1:1}" "$out/clean/train.$side" "$out/tok/valid.$side" "$out/tok/test.$side"
        fi
        in_parts "${command[@]}" -- "$out/clean/train.$side" "$out/tok/valid.$side" "$out/tok/test.$side"
        run subwords vocabulary <"$tmp/train.$side" >"$tmp/vocab.$side"
        for file in "valid.$side" "test.$side"; do
            long=$(awk 'NF >= 1024' "$tmp/$file" | wc -l)
            ((long == 0)) || echo "warning: $file: $(thousands "$((long))") lines of 1,024 subwords or more; with the \
end-of-sentence token they exceed fairseq's default of 1024 positions; shorten them" >&2
        done
        summary+=" $(lines "$tmp/vocab.$side") in $side,"
    done
    echo "${summary%,}"
}

preprocess() { # OPTIONS of fairseq-preprocess
    to_bin "$@"
    if [[ " $* " == *" --joined-dictionary "* ]]; then
        echo "joined dictionary of $(lines "$tmp/dict.$source.txt") types"
    else
        echo "dictionaries of $(lines "$tmp/dict.$source.txt") and $(lines "$tmp/dict.$target.txt") types"
    fi
}

to_bin() { # OPTIONS of fairseq-preprocess
    local hashes
    fairseq_preprocess "$@" --source-lang "$source" --target-lang "$target" \
        --trainpref "$out/bpe/train" --validpref "$out/bpe/valid" --testpref "$out/bpe/test"
    hashes=$(run subwords hashes "$tmp" "dict.$source.txt" "dict.$target.txt")
    corpus_json "$hashes" "${works[*]} ${as_published:-}" >"$tmp/corpus.json"
}

corpus_json() { # HASHES of the dictionaries, OPTIONS of the steps: prints what evaluate and translate need to know of the corpus
    local steps=" ${*:2} " rules="" word method=bpe post_process=subword_nmt
    for word in $steps; do
        case $word in
            --tokeniser=*) rules+=$'\n  "tokeniser": "'"${word#*=}\"," ;;
            pieces | --pieces) method=sentencepiece post_process=sentencepiece ;;
        esac
    done
    chosen() { if [[ $steps == *" $1 "* ]]; then echo true; else echo false; fi; }
    cat <<END
{
  "corpus": "$corpus",
  "source": "$source",
  "target": "$target",
  "tokenizer_languages": [
    "${moses[0]:-$source}",
    "${moses[1]:-$target}"
  ],
  "normalise": $(chosen --normalise),
  "aggressive_dashes": $(chosen --aggressive-dashes),
  "lowercase": $(chosen --lowercase),$rules
  "subwords": "$method",
  "vocabulary_threshold": 0,
  "post_process": "$post_process",
  "pairs": {
    "train": $(($(wc -l <"$out/bpe/train.$source"))),
    "valid": $(($(wc -l <"$out/bpe/valid.$source"))),
    "test": $(($(wc -l <"$out/bpe/test.$source")))
  },
  "dictionaries": $1,
  "files_checked": true
}
END
}

ready() {
    local more=""
    # fairseq would read the languages from the names of the files, which it splits at hyphens.
    [[ $source$target != *-* ]] || more=" --source-lang $source --target-lang $target"
    echo "ready: fairseq-train $(quoted "$out/bin")$more"
}

draw() { # --sample=N --sample-seed=N: replaces the training pairs in $tmp with a random sample of them
    run choose draw "${@:1:2}" "$tmp/train.$source" "$tmp/train.$target" "$tmp/unpacked/drawn."{source,target} >"$tmp/unpacked/total"
    mv -- "$tmp/unpacked/drawn.source" "$tmp/train.$source"
    mv -- "$tmp/unpacked/drawn.target" "$tmp/train.$target"
    echo "$(pairs "$tmp"); train drawn from $(thousands "$(cat "$tmp/unpacked/total")"), seed ${2#*=}"
}

require_jieba() { # fails at once, not after hours of downloading
    "$python" -c 'import jieba' 2>/dev/null || fail "Chinese text needs jieba: run pip install jieba"
}
