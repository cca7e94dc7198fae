# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Sourced by cpu_run.sh and paper.sh: --help, made of the recipe itself. What can be set is every line
#
#   KNOB=${KNOB:-default} # what it is
#
# of the recipe and the files that it sources. Where the default is the recipe's, those have KNOB=${KNOB:?} # what it is

# restart_for_help ARGUMENT...: if one is -h or --help, starts the recipe anew with nothing set, so that its variables
# have their defaults, and with EPGRPO_HELP=1.
restart_for_help() {
    local argument
    for argument in "$@"; do
        if [[ $argument == -h || $argument == --help ]]; then
            exec env -i PATH="$PATH" HOME="${HOME:-}" EPGRPO_HELP=1 "$BASH" "$0"
        fi
    done
}

# show_help FILE...: prints the head of the recipe, the knobs of recipe and files with the values that they have, and the
# head of the first file from "Examples" on.
show_help() {
    local name kind text
    local -A known=() settable=() about=()
    local names=()
    printf 'usage: [KNOB=value ...] bash %s [Hydra override ...]\n\n' "$0"
    _head "$0"
    printf '\nKnobs, set in the environment, and their defaults:\n'
    while IFS=: read -r name kind text; do
        if [ -z "${known[$name]:-}" ]; then names+=("$name") known[$name]=1; fi
        if [ "$kind" = - ]; then settable[$name]=1; fi
        if [ -z "${about[$name]:-}" ]; then about[$name]=$text; fi
    done < <(sed -nE 's/^([A-Z][A-Z0-9_]*)=.*\$\{\1:([-?])[^#]*(# (.*))?$/\1:\2:\4/p' "$0" "$@")
    for name in "${names[@]}"; do
        if [ -z "${settable[$name]:-}" ] || grep -qE "^$name=[^\$]" "$0"; then continue; fi
        text=$name=${!name}
        if ((${#text} > 24)); then
            printf '  %s\n' "$text"
            text=
        fi
        printf '  %-24s  %s\n' "$text" "${about[$name]}"
    done
    printf '\n'
    _head "$1" | sed -n '/^Examples/,$p' | sed "s|RECIPE|bash $0|"
}

# The comment at the head of a file, without license, shebang, directives and the hint at --help.
_head() {
    sed -nE '/^#/!q; /^#!|^# (Copyright|SPDX|shellcheck)|--help/d; s/^# ?//p' "$1"
}
