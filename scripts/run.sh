#!/usr/bin/env bash
# Runs a recipe's whole experiment, from corpus to score; see `bash scripts/run.sh --help`.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/env.sh"

# Variables with the settings of the recipe and the command line.
values=$("$python" -m diverse_mha.training.run_values "$@") || exit $?
[[ $values == about=* ]] || { echo "$values" && exit 0; } # the help
eval "$values"
at=$root/ && [[ $PWD != "$root" ]] || at="" # in the clone, show commands with relative paths

show() { # COMMAND...: prints it as a user would type it
    printf '\n$'
    printf ' %q' "$@"
    printf '\n'
}

step() { # COMMAND...: prints it, and runs it unless --print is given
    show "$@"
    [[ -n $print ]] || "$@"
}

once() { # OUTPUT INPUT COMMAND...: runs a step, unless it has already made OUTPUT from this INPUT
    local log=$1.log
    if [[ -n $print ]]; then
        show "${@:3}"
    elif [[ $1 -nt $2 && -f $log && $(head -n 1 "$log") == "${*:3}" ]]; then
        show "${@:3}"
        echo "(already done)"
        sed 1d "$log"
    elif [[ $1 -nt $2 && -f $log ]]; then
        echo "error: $1: was made by another command (see the first line of $log); delete ${1/%.json/.*}," \
            "or choose another checkpoint.save_dir" >&2
        exit 2
    else
        step "${@:3}" | tee "$log.part"
        { echo "${*:3}" && sed 1,2d "$log.part"; } >"$log"
        rm -- "$log.part"
    fi
}

# shellcheck disable=SC2154 # variables of $values
{
    echo "$about"
    ((${#prepare[@]} == 0)) || step bash "${at}data-prep/${prepare[0]}" "${prepare[@]:1}"
    step bash "${at}scripts/train.sh" "${train[@]}"
    if ((average > 0)); then
        once "$model" "$run/checkpoint_last.pt" bash "${at}scripts/average.sh" "$run" \
            --last "$average" --by "$average_by" --output "$model"
    fi
    for name in "${results[@]}"; do
        result=$run/$name.json
        once "$result" "$model" bash "${at}scripts/$evaluate" "$model" "$data" \
            ${options[@]+"${options[@]}"} ${subset:+"$subset" "$name"} --output "$result"
    done
    [[ -n $print ]] || "$python" -m diverse_mha.training.run_values --score "$score" "$result"
}
