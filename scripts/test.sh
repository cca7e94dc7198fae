#!/usr/bin/env bash
# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
# Runs linters and tests in an environment of their own (ENV_DIR, default .venv-test in this checkout).
# Arguments go to pytest: `bash scripts/test.sh -m "not slow"`.
# Viewer and report are tested in the Chromium or Chrome on the PATH (or CHROMIUM=/path/to/it); without one, those tests are skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/environment.sh
source scripts/environment.sh

make_environment "${ENV_DIR:-$PWD/.venv-test}" "$PWD/requirements/test.txt"
bin=$(dirname "$ENV_PYTHON")
export PATH=$bin:$PATH
ruff check .
ruff format --check .
find recipes scripts .ci/run -type f \( -name '*.sh' -o -path .ci/run \) -exec shellcheck -x {} +
if (($#)); then
    exec "$ENV_PYTHON" -m pytest "$@"
fi
# What starts Ray and verl's trainer has the machine to itself; the rest shares it.
failed=0
"$ENV_PYTHON" -m pytest -m "not slow and not nightly" -n logical --maxprocesses 4 --dist loadfile || failed=1
"$ENV_PYTHON" -m pytest -m "slow and not nightly" --durations 30 || failed=1
exit "$failed"
