# shellcheck shell=bash
# Functions of steps for files: fetch, check and unpack them, and filter them on all cores.

digest() { # METHOD: prints the checksum of standard input
    if command -v "$1sum" >/dev/null; then "$1sum"; elif [[ $1 == md5 ]]; then md5 -q; else shasum -a "${1#sha}"; fi |
        cut -d ' ' -f 1
}

text_of() { # FILE: prints it, decompressed if it is gzipped
    if [[ $(head -c 2 <"$1" | od -An -tx1 | tr -d ' ') == 1f8b ]]; then gzip -dc <"$1"; else cat <"$1"; fi
}

# checked FILE CHECKSUM: succeeds if the file has the checksum, else prints the reason. CHECKSUM is
# sha256:..., md5:..., text-sha256:... (of the decompressed text), git-blob:..., or none (unknown).
checked() {
    local method=${2%%:*} have
    case $method in
        none) return ;;
        git-blob) have=$({ printf 'blob %d\0' "$(wc -c <"$1")" && cat <"$1"; } | digest sha1) ;;
        text-*) have=$(text_of "$1" 2>/dev/null | digest "${method#text-}") || have="unknown, because it is cut off" ;;
        *) have=$(digest "$method" <"$1") ;;
    esac
    [[ $have == "${2#*:}" ]] && return
    echo "$1 is not the published file: its $method is $have, expected ${2#*:}"
    return 1
}

# fetch NAME CHECKSUM URL...: sets $got to the path of the file, and checks the file. With --from it is
# taken from that folder, also gzipped if CHECKSUM is that of the text. Otherwise it is downloaded into
# download/, and $unchecked is its path if it has no checksum.
fetch() {
    local name=$1 sum=$2 url why="" reasons="" place
    shift 2
    unchecked=""
    [[ $name != *.zip ]] || need unzip
    if [[ -n $from ]]; then
        for place in "$name" "$name.gz" "${name%.gz}"; do
            [[ $place != *.tar && -f $from/$place ]] || continue
            got=$from/$place
            why=$(checked "$got" "$sum") || fail "$why"
            return 0
        done
        fail "$from has no $name; put it there, or leave out --from"
    fi
    got=$out/download/$name
    [[ $sum != none ]] || unchecked=$got
    if [[ -f $got ]]; then
        why=$(checked "$got" "$sum") || fail "$why; delete it, and run again to fetch the published file"
        return 0
    fi
    need curl
    mkdir -p -- "$out/download"
    for url in "$@"; do
        if why=$(download "$url" "$got.part" "$sum"); then
            mv -- "$got.part" "$got"
            [[ $sum != none ]] || note "note: no checksum of $name is known; its sha256 is $(digest sha256 <"$got")"
            return 0
        fi
        reasons+="${reasons:+; }$url: $why"
    done
    fail "cannot download $name ($reasons); run the same command again to resume, or put the file into a \
folder and give the folder with --from"
}

need() { # PROGRAM: fails if it is not installed
    command -v "$1" >/dev/null || fail "the program $1 is missing; install it (Debian, Ubuntu: apt install $1)"
}

download() { # URL PART CHECKSUM: resumes an earlier attempt; prints the reason if it fails
    local attempt=0 resumed code why="" show="--silent --show-error"
    [[ ! -t 2 ]] || show=--progress-bar
    while ((attempt < 3)); do
        ((attempt == 0)) || sleep "$((attempt * 2))"
        attempt=$((attempt + 1)) resumed="" code=0
        [[ ! -s $2 ]] || resumed=yes
        [[ -z $resumed ]] || ! checked "$2" "$3" >/dev/null || [[ $3 == none ]] || return 0
        # shellcheck disable=SC2086 # two options
        why=$(curl --fail --location --retry 3 --continue-at - --connect-timeout 60 --speed-limit 1 \
            --speed-time 60 $show --output "$2" "$1" 2>&1 >/dev/null) || code=$?
        if [[ $code == 0 ]]; then
            why=$(checked "$2" "$3") && return 0
            rm -f -- "$2"
            [[ -n $resumed ]] || break # not resumed: another attempt would give the same file
        elif [[ $code == 33 || ($code == 22 && -n $resumed) ]]; then
            rm -f -- "$2" # the server cannot resume
        elif [[ $code != 18 && $code != 28 && $code != 52 && $code != 56 && $code != 92 ]]; then
            break
        fi
    done
    echo "${why##*$'\n'}"
    return 1
}

unpack() { # ARCHIVE MEMBER...: unpacks into $tmp/unpacked; a MEMBER of a .zip may have wildcards
    local archive=$1 code=0
    shift
    mkdir -p -- "$tmp/unpacked"
    if [[ $archive == *.zip ]]; then
        unzip -q -o "$archive" "$@" -d "$tmp/unpacked" >"$tmp/log" 2>&1 || code=$?
    else
        tar -xf "$archive" -C "$tmp/unpacked" "$@" >"$tmp/log" 2>&1 || code=$?
    fi
    [[ $code == 0 ]] || not_unpacked "$archive" "$(head -n 1 "$tmp/log")"
    [[ -z $(find "$tmp/unpacked" ! -type f ! -type d) ]] || fail "$archive: a text in it is not a regular file; not unpacked"
    rm -f -- "$tmp/log"
}

# A download without a checksum is deleted, because it may be another page than the archive. One with
# a checksum is whole.
not_unpacked() { # ARCHIVE REASON
    if [[ $1 == "${unchecked:-}" ]]; then
        rm -f -- "$1"
        fail "$1 was not the archive ($2) and is deleted; run the same command again to fetch it again"
    fi
    [[ $1 == "$out/download/"* ]] || fail "$1 is damaged, cut off, or without a text ($2); put another file there"
    fail "$1 is the published file, but cannot be unpacked ($2); is the disk full?"
}

run() { # MODULE [WORD...]: runs a module of diverse_mha.corpora
    "$python" -m "diverse_mha.corpora.$1" "${@:2}"
}

# in_parts COMMAND... -- FILE...: filters each file with COMMAND into $tmp, under the same name. Parts
# of the file run on all cores.
in_parts() {
    local command=() file
    while [[ $1 != -- ]]; do command+=("$1") && shift; done
    shift
    for file in "$@"; do
        split -a 4 -l "$(($(wc -l <"$file") / workers + 500))" "$file" "$tmp/${file##*/}.part."
    done
    # shellcheck disable=SC2016 # for the inner bash
    find "$tmp" -name '*.part.????' -print0 | xargs -0 -n 1 -P "$workers" bash -c \
        '"${@:1:$#-1}" <"${!#}" >"${!#}.out"' filter "${command[@]}" || exit 2
    for file in "$@"; do
        cat "$tmp/${file##*/}.part."????.out >"$tmp/${file##*/}"
        rm -f -- "$tmp/${file##*/}.part."*
    done
}

thousands() { # NUMBER: prints it with commas
    local n=$1 end=""
    while ((${#n} > 3)); do end=,${n:${#n}-3}$end n=${n:0:${#n}-3}; done
    echo "$n$end"
}

sum_of() { # FILE...: prints one checksum of the contents, for files without a published checksum
    local file
    for file in "$@"; do [[ ! -f $file ]] || digest sha256 <"$file"; done | digest sha256
}

sum_of_texts() { # FILE...: prints one checksum of texts that may be gzipped
    local file
    for file in "$@"; do text_of "$file" 2>/dev/null | digest sha256; done | digest sha256
}

own_text() { # NAME: sets $got to the file's path in the folder --from, gzipped or not
    [[ ! -f $from/$1 || ! -f $from/$1.gz ]] || text_of "$from/$1.gz" 2>/dev/null | cmp -s - "$from/$1" ||
        fail "$from has $1 and $1.gz with different text; keep one of them"
    for got in "$from/$1" "$from/$1.gz"; do [[ ! -f $got ]] || return 0; done
    fail "$from has no $1; put it there, plain or gzipped as $1.gz"
}

lines() { # FILE: prints its number of lines
    thousands "$(($(wc -l <"$1")))"
}

quoted() { # WORD: prints it quoted for a shell
    local quote="'\\''"
    if [[ $1 =~ [^A-Za-z0-9_@%+=:,./-] ]]; then echo "'${1//\'/$quote}'"; else echo "$1"; fi
}

fairseq_preprocess() { # OPTIONS
    local code=0
    PYTHONWARNINGS=ignore "$python" -m fairseq_cli.preprocess "$@" --destdir "$tmp" --workers "$workers" \
        >/dev/null 2>"$tmp/log" || code=$?
    [[ $code == 0 ]] || fail "fairseq-preprocess failed (exit code $code): $(tail -n 1 "$tmp/log")"
    rm -f -- "$tmp/log" "$tmp/preprocess.log" # preprocess.log only repeats the options
}
