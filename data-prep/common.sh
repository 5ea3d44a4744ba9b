# shellcheck shell=bash
# Functions that the scripts of this folder share. A script declares its options (option), reads them
# (begin), lists its steps (step) and runs them (run_steps). Needs bash 3.2 or later, curl, tar, unzip,
# and GNU's or BSD's tools.
set -euo pipefail

root=$(CDPATH="" cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
script=data-prep/${0##*/}
corpus=${0##*/} # $0 has no folder in "cd data-prep; bash prepare-demo.sh"
corpus=${corpus#prepare-}
corpus=${corpus%.sh}
names=() kinds=() texts=()              # names, kinds and help texts of the options
folders=() titles=() works=()           # folders, titles and functions of the steps
title="" tmp="" job=""                  # title, folder and process group of the current step
made="" got=""                          # the topmost folder that begin creates; the path that fetch sets

fail() { # MESSAGE [EXIT CODE]
    echo "error: ${1//[[:cntrl:]]/?}" >&2 # names of files may have control characters
    exit "${2:-2}"
}

note() { echo "$*" >&3; } # prints to the terminal; a step's standard output is its summary

# option NAME DEFAULT KIND TEXT: declares --NAME, which sets the variable of that name. KIND is flag,
# a|b for a choice, N1 for a whole number from 1 up, X for a number from 1 to 1000, or a word for any text.
option() {
    names+=("$1") kinds+=("$3") texts+=("$4${2:+ ($2)}")
    printf -v "$1" %s "$2"
}

usage() { # prints the comment at the top of the script, and its options
    local i kind
    printf 'usage: bash %s [options]\n\n' "$script"
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' <"$0"
    printf '\noptions:\n'
    for i in "${!names[@]}"; do
        kind=${kinds[i]}
        case $kind in flag) kind="" ;; [NX]*) kind=${kind:0:1} ;; esac
        printf '  --%s %s\n        %s\n' "${names[i]//_/-}" "$kind" "${texts[i]}"
    done
}

wrong() { fail "$1; see $script --help"; }

read_options() {
    local word value i name
    while (($#)); do
        word=$1 i=0
        shift
        [[ $word != -h && $word != --help ]] || { usage && exit 0; }
        name=${word%%=*} name=${name#--}
        while ((i < ${#names[@]})) && [[ ${names[i]} != "${name//-/_}" ]]; do i=$((i + 1)); done
        [[ $word == --* && $i -lt ${#names[@]} ]] || wrong "$word: there is no such option"
        name=${names[i]}
        if [[ ${kinds[i]} == flag ]]; then
            [[ $word != *=* ]] || wrong "$word: takes no value"
            value=yes
        elif [[ $word == *=* ]]; then
            value=${word#*=}
        else
            (($#)) || wrong "$word: needs a value"
            value=$1
            shift
        fi
        check_value "$name" "${kinds[i]}" "$value"
        printf -v "$name" %s "$value"
        given+=" $name "
    done
}

check_value() { # NAME KIND VALUE
    local option="--${1//_/-}" least=${2#N}
    case $2 in
        N[0-9]*)
            [[ $3 =~ ^[0-9]{1,15}$ ]] || wrong "$option: $3 is not a whole number from $least up"
            ((10#$3 >= least)) || wrong "$option: $3 is not a whole number from $least up"
            ;;
        X)
            [[ $3 =~ ^[0-9]{1,3}(\.[0-9]{1,9})?$ && $3 != 0* || $3 == 1000 ]] ||
                wrong "$option: $3 is not a number from 1 to 1000"
            ;;
        *\|*) [[ "|$2|" == *"|$3|"* && $3 != *\|* ]] || wrong "$option: $3 is not one of ${2//|/, }" ;;
        *) [[ -n $3 ]] || wrong "$option: needs a value" ;;
    esac
}

option out "data/$corpus" FOLDER "folder for all output"
option force "" flag "replace another corpus that --out holds; models trained on it lose their data"
from="" # the demo corpus is generated
[[ $corpus == demo* ]] || option from "" FOLDER "take the files from this folder; nothing is downloaded"
option workers "$(OMP_NUM_THREADS="" nproc 2>/dev/null || sysctl -n hw.ncpu)" N1 "number of processes"
given=""

# begin "$@": reads the options, and locks the output folder for this run.
begin() {
    read_options "$@"
    [[ $given == *" out "* ]] || out=$root/$out
    [[ $out != *:* ]] || wrong "--out: $out contains a colon, which separates folders in fairseq; give another name"
    case $out in -*) out=./$out ;; esac
    case $from in -*) from=./$from ;; esac
    [[ -z $from || -d $from ]] || fail "$from, given by --from, is not a folder; check the name"
    made=$out
    local above=$out
    while [[ ! -e $above && ! -L $above ]]; do made=$above above=$(dirname -- "$above"); done
    [[ -d $above && -w $above ]] || fail "--out $out: $above cannot be written to; choose another path"
    [[ $above != "$out" ]] || made=""
    . "$root/scripts/env.sh"
    export PYTHONUTF8=1
    exec 3>&1
    trap 'tidy_up $?' EXIT
    trap 'stop 130' INT
    trap 'stop 143' TERM
    trap 'stop 129' HUP
    mkdir -p -- "$out"
    exec 9<"$out" # locked below, by this process and its children
    "$python" -c 'import fcntl, sys
try:
    fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit("error: another run is at work in " + sys.argv[1] + "; wait for it to end")
except OSError:
    pass  # no locks on this file system' "$out" || exit 2
}

stop() { # EXIT CODE: after Ctrl-C or another signal
    echo "interrupted; run the same command again to go on" >&2
    exit "$1"
}

tidy_up() { # EXIT CODE: ends the current step; removes its files, and the created folders if empty
    trap '' INT TERM HUP
    if [[ -n $job ]]; then
        kill -TERM -- "-$job" 2>/dev/null || true
        wait "$job" 2>/dev/null || true
    fi
    [[ -z $tmp ]] || rm -rf -- "$tmp" "$tmp.summary" "$tmp.stamp"
    [[ -z $made || ! -d $made ]] || find "$made" -depth -type d -empty -exec rmdir {} \;
    exit "$1"
}

. -- "$root/data-prep/steps.sh"
. -- "$root/data-prep/files.sh"
