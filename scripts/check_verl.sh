#!/usr/bin/env bash
# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
# Runs the plugin's fast tests against another verl than the installed one, for instance every night against its main
# branch: does every function that the plugin hooks still exist, and does verl still call it as expected?
#
#   scripts/check_verl.sh 0.9.0              a release, downloaded with pip
#   scripts/check_verl.sh path/to/checkout   a source tree that holds the folder verl/
#   scripts/check_verl.sh 0.9.0 -k symbols   further arguments go to pytest
#
# Runs in the Python of the environment that is active (PYTHON, default python), whose other packages are used as they
# are; nothing is installed.
set -euo pipefail

if [[ $# -eq 0 ]]; then
    sed -n '4,11s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
which=$1
shift
python=${PYTHON:-python}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

if [[ -f $which/verl/__init__.py ]]; then
    tree=$(cd "$which" && pwd)
else
    tree=$(mktemp -d)
    trap 'rm -rf "$tree"' EXIT
    "$python" -m pip download --quiet --no-deps --no-binary :none: --dest "$tree" "verl==$which"
    "$python" -m zipfile -e "$tree"/verl-*.whl "$tree"
fi

export PYTHONPATH=$tree${PYTHONPATH:+:$PYTHONPATH}
"$python" -W ignore -c 'import verl; print("verl", verl.__version__, "from", verl.__file__)'
cd "$root"
"$python" -m pytest -q -m "not slow" -W ignore tests/plugin "$@"
