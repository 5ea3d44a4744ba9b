# shellcheck shell=bash
# Steps that are done once: each writes one folder of $out, whole or not at all. It works in NAME.tmp,
# which is renamed to NAME with a stamp in it: the corpus, the options of all steps so far, and the
# files. A folder with the right stamp is not made again; any other is, and with it all that was made from it. What was
# there goes once the new folder is whole, and never with a file in it that no step wrote. A finished
# corpus is replaced by another one with --force only.

# step FOLDER TITLE FUNCTION [--NAME=VALUE ...]: FUNCTION, called with the options, writes into $tmp
# and prints a summary. The options are all that decides what it writes beside the steps before it.
step() { folders+=("$1") titles+=("$2") works+=("${*:3}"); }

# run_steps: runs the steps that are not done. Each leaves a stamp in its folder, with the options
# of all steps up to it, and the files it wrote.
run_steps() {
    local i chain="" name start code
    keep_another_corpus
    for name in "${folders[@]}"; do rm -rf -- "$out/$name.tmp" "$out/$name.old"; done
    for i in "${!folders[@]}"; do
        name=${folders[i]} title="[$((i + 1))/${#folders[@]}] ${titles[i]}:"
        chain+="step: $name ${works[i]}"$'\n'
        if whole "$out/$name" && of_corpus "$out/$name" &&
            [[ "$(grep '^step: ' "$out/$name/stamp")"$'\n' == "$chain" ]]; then
            echo "$title $(sed -n 's/^summary: //p' "$out/$name/stamp") (already done)"
            continue
        fi
        keep_files_of_others "${folders[@]:i}"
        start=$SECONDS tmp=$out/$name.tmp code=0
        mkdir -- "$tmp"
        [[ ! -t 2 ]] || printf '%s ...\r' "$title" >&2
        set -m # a process group of its own, which tidy_up ends
        # shellcheck disable=SC2086 # options without blanks
        (${works[i]}) >"$tmp.summary" </dev/null &
        job=$!
        set +m
        wait "$job" || code=$?
        [[ ! -t 2 ]] || printf '\r\033[K' >&2
        [[ $code == 0 ]] || failed "$code"
        job=""
        printf 'corpus: %s\n%ssummary: %s\n' "$(corpus_name)" "$chain" "$(cat -- "$tmp.summary")" >"$tmp.stamp"
        sizes "$tmp" | sed 's/^/file: /' >>"$tmp.stamp"
        mv -- "$tmp.stamp" "$tmp/stamp"
        [[ ! -e $out/$name && ! -L $out/$name ]] || mv -- "$out/$name" "$out/$name.old"
        mv -- "$tmp" "$out/$name"
        remove "$out/$name.old"
        for name in "${folders[@]:i + 1}"; do remove "$out/$name"; done
        echo "$title $(cat -- "$tmp.summary")  $((SECONDS - start)) s"
        rm -f -- "$tmp.summary"
        tmp=""
    done
}

failed() { # EXIT CODE of a step; 2 is that of a program that has said why
    [[ $1 == 2 ]] || fail "${title#* } a program ended with exit code $1; is the memory or the disk full?"
    exit 2
}

sizes() { # FOLDER: its files with their sizes
    (cd -- "$1" && find . -type f ! -name stamp -exec ls -ln {} + | awk '{ print $5, $9 }' | LC_ALL=C sort)
}

whole() { # FOLDER: whether it has a stamp, and all files that the stamp names
    [[ -f $1/stamp ]] && ! sed -n 's/^file: //p' "$1/stamp" | grep -vxF -f <(sizes "$1") -q
}

corpus_name() { echo "$corpus${source:+, $source to $target}"; }

of_corpus() { # FOLDER: whether its stamp is of this corpus and these languages; an old stamp does not say
    ! grep '^corpus: ' "$1/stamp" | grep -vxF -q "corpus: $(corpus_name)"
}

remove() { # FOLDER of a step, without its stamp first; where it is a link, the link alone
    [[ -L $1 ]] || rm -f -- "$1/stamp"
    rm -rf -- "$1"
}

hide_sums() { # checksums say nothing to a reader
    sed -E 's/=[0-9a-f]{64}/=other-text/g'
}

# A finished corpus that came from other text or options is replaced with --force only.
keep_another_corpus() {
    local last=$out/${folders[${#folders[@]} - 1]}
    local i name before
    for name in "${folders[@]}" "${folders[@]/%/.tmp}" "${folders[@]/%/.old}"; do
        name=$out/$name
        [[ -z $from || ! -d $name || "$(cd -- "$from" && pwd -P)/" != "$(cd -- "$name" && pwd -P)"/* ]] ||
            fail "--from $from: it is in $name, which this command writes itself; copy the text to another place"
    done
    keep_other_folders
    [[ -z $force && -f $last/stamp ]] || return 0
    of_corpus "$last" ||
        fail "$out holds another prepared corpus ($(sed -n 's/^corpus: //p' "$last/stamp")); give another --out, or --force to replace it"
    for i in "${!folders[@]}"; do
        before=$(sed -n 's/^step: //p' "$last/stamp" | sed -n "$((i + 1))p")
        [[ $before == "${folders[i]} ${works[i]}" ]] ||
            fail "$out holds another prepared corpus (made by: $(hide_sums <<<"$before")); give another --out, or --force to replace it"
    done
}

# A folder with other things in it that no step has written to is the user's.
keep_other_folders() {
    local name known=" download ${folders[*]} ${folders[*]/%/.old} "
    known+="${folders[*]/%/.tmp} ${folders[*]/%/.tmp.summary} ${folders[*]/%/.tmp.stamp} "
    for name in "${folders[@]}"; do [[ ! -f $out/$name/stamp ]] || return 0; done
    for name in "$out"/*; do
        [[ ! -e $name || $known == *" ${name##*/} "* ]] ||
            fail "--out $out: has other files in it (${name##*/}); give a new folder, or an empty one"
    done
}

# A folder, or a file in it, that no step wrote is the user's: nothing is replaced then.
keep_files_of_others() { # FOLDERS
    local name place other
    for name in "$@"; do
        place=$out/$name
        [[ -e $place || -L $place ]] || continue
        if [[ -f $place/stamp ]]; then
            other=$(sizes "$place" | cut -d ' ' -f 2- | grep -vxF -f <(sed -n 's/^file: [0-9]* //p' "$place/stamp") |
                head -n 1) || true
            [[ -n $other ]] || continue
            place=$place/${other#./}
        fi
        fail "$place is there, but not from this command; move it away or choose another --out"
    done
}
