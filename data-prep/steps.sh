# shellcheck shell=bash
# Steps that run once. Each step writes one folder of $out, completely or not at all: it works in .NAME.tmp,
# which is renamed to NAME at the end. The file stamp in the folder records the corpus, the options of all
# steps up to this one, the contents of the earlier folders, and the files with their contents. A folder
# with the right stamp is kept. Any other folder is made again, and so are the folders of all later steps;
# a file that was changed is named. The old folder is deleted when the new folder is
# complete, but never if it contains a file that no step wrote. A finished corpus is replaced by another
# corpus only with --force.

# step FOLDER TITLE FUNCTION [--NAME=VALUE ...]: FUNCTION, called with the options, writes into $tmp
# and prints a summary. What it writes depends only on the options and the steps before it.
step() { folders+=("$1") titles+=("$2") works+=("${*:3}"); }

# run_steps: runs the steps that are not done yet, and writes their stamps.
run_steps() {
    local i chain="" made_of="" inputs contents name start code sums places=()
    keep_another_corpus
    for name in "${folders[@]}"; do
        rm -rf -- "$out/.$name.tmp" "$out/.$name.tmp".{summary,stamp} "$out/.$name.old"
        places+=("$name" "$out/$name")
    done
    contents=$(contents_of "${places[@]}") || exit 2
    for i in "${!folders[@]}"; do
        name=${folders[i]} title="[$((i + 1))/${#folders[@]}] ${titles[i]}:"
        chain+="step: $name ${works[i]}"$'\n' inputs=$(digest sha256 <<<"$made_of")
        if whole "$name" && of_corpus "$out/$name" && made_from "$out/$name" "$inputs" &&
            [[ "$(grep '^step: ' "$out/$name/stamp")"$'\n' == "$chain" ]]; then
            made_of+=$(grep '^sha256: ' "$out/$name/stamp") || true
            echo "$title $(sed -n 's/^summary: //p' "$out/$name/stamp") (already done)"
            continue
        fi
        keep_files_of_others "${folders[@]:i}"
        start=$SECONDS tmp=$out/.$name.tmp code=0
        mkdir -- "$tmp"
        [[ ! -t 2 ]] || printf '%s ...\r' "$title" >&2
        set -m # a process group of its own, which tidy_up ends
        # shellcheck disable=SC2086 # options without spaces
        (${works[i]}) >"$tmp.summary" </dev/null &
        job=$!
        set +m
        wait "$job" || code=$?
        [[ ! -t 2 ]] || printf '\r\033[K' >&2
        [[ $code == 0 ]] || failed "$code"
        job=""
        printf 'corpus: %s\n%ssummary: %s\ninputs: %s\n' "$(corpus_name)" "$chain" "$(cat -- "$tmp.summary")" "$inputs" >"$tmp.stamp"
        sizes "$tmp" | sed 's/^/file: /' >>"$tmp.stamp"
        sums=$(contents_of "$name" "$tmp") || exit 2
        printf '%s' "${sums:+$sums$'\n'}" | sed "s/^$name /sha256: /" >>"$tmp.stamp"
        made_of+=$(grep '^sha256: ' "$tmp.stamp") || true
        mv -- "$tmp.stamp" "$tmp/stamp"
        [[ ! -e $out/$name && ! -L $out/$name ]] || mv -- "$out/$name" "$out/.$name.old"
        mv -- "$tmp" "$out/$name"
        remove "$out/.$name.old"
        for name in "${folders[@]:i + 1}"; do remove "$out/$name"; done
        echo "$title $(cat -- "$tmp.summary")  $((SECONDS - start)) s"
        rm -f -- "$tmp.summary"
        tmp=""
    done
}

failed() { # EXIT CODE of a step; 2: its program has printed the error
    [[ $1 == 2 ]] || fail "${title#* } a program ended with exit code $1; is the memory or the disk full?"
    exit 2
}

sizes() { # FOLDER: prints its files with their sizes
    (cd -- "$1" && find . -type f ! -name stamp -exec ls -ln {} + | awk '{ print $5, $9 }' | LC_ALL=C sort)
}

contents_of() { # NAME FOLDER ...: prints NAME, checksum and path of the files in each folder
    run contents "$out/.hashes" "$@"
}

# whole NAME: succeeds if the step's folder has a stamp, and all files that the stamp names, unchanged. The
# stamps of older versions have no checksums.
whole() {
    local stamp=$out/$1/stamp changed
    [[ -f $stamp ]] && ! sed -n 's/^file: //p' "$stamp" | grep -vxF -f <(sizes "$out/$1") -q || return
    changed=$(sed -n 's/^sha256: //p' "$stamp" | grep -vxF -f <(sed -n "s/^$1 //p" <<<"$contents") | head -n 1) || true
    [[ -n $changed ]] || return 0
    note "note: $out/$1/${changed#* ./} is not as it was prepared; it is prepared again"
    return 1
}

made_from() { # FOLDER CHECKSUM: succeeds if its stamp names these contents of the earlier folders, or (an old stamp) none
    ! grep '^inputs: ' "$1/stamp" | grep -vxF -q "inputs: $2"
}

corpus_name() { echo "$corpus${source:+, $source to $target}"; }

of_corpus() { # FOLDER: succeeds if its stamp names this corpus and these languages, or (an old stamp) none
    ! grep '^corpus: ' "$1/stamp" | grep -vxF -q "corpus: $(corpus_name)"
}

remove() { # FOLDER: deletes a step's folder, its stamp first; of a symbolic link only the link
    [[ -L $1 ]] || rm -f -- "$1/stamp"
    rm -rf -- "$1"
}

hide_sums() { # replaces checksums, which mean nothing to a reader
    sed -E 's/=[0-9a-f]{64}/=other-text/g'
}

# Refuses to replace a finished corpus that was made from other text or options, unless --force is given.
keep_another_corpus() {
    local last=$out/${folders[${#folders[@]} - 1]}
    local i name before options
    for name in "${folders[@]}"; do
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
        [[ $before != "${folders[i]} ${works[i]}" ]] || continue
        read -r name _ options <<<"$(hide_sums <<<"$before")"
        fail "$out holds a corpus prepared from other files or options (step ${name:-${folders[i]}}${options:+: $options}); give another --out, or --force to replace it"
    done
}

# Refuses an output folder that has other files and no finished step, because it is the user's.
keep_other_folders() {
    local name known=" download ${folders[*]} "
    for name in "${folders[@]}"; do [[ ! -f $out/$name/stamp ]] || return 0; done
    for name in "$out"/*; do
        [[ ! -e $name || $known == *" ${name##*/} "* ]] ||
            fail "--out $out: has other files in it (${name##*/}); give a new folder, or an empty one"
    done
}

# Refuses to replace folders that no step wrote, or that contain a file that no step wrote.
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
        fail "$place exists, but was not made by this command; move it away or choose another --out"
    done
}
