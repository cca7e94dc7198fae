# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Sourced by cpu_run.sh and paper.sh: paths in Hydra overrides.

# check_paths NAME...: ends the script if a variable holds a path that would be read as something else: as an
# interpolation or an escape by Hydra, as a pattern or a chain of file systems by what loads the data.
check_paths() {
    local name text
    for name in "$@"; do
        for text in \$\{ \\ '*' '?' '[' ']' '::' $'\n'; do
            if [[ ${!name} == *"$text"* ]]; then
                printf '%s=%s cannot be given to verl as a path because of the %s in it: set %s to another one\n' \
                    "$name" "${!name}" "${text/$'\n'/line break}" "$name" >&2
                exit 2
            fi
        done
    done
}

# quoted PATH: prints it as a quoted text of Hydra's grammar.
quoted() {
    printf "'%s'" "${1//\'/\\\'}"
}
