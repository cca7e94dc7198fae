#!/usr/bin/env bash
# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
# Baseline: GRPO with more exploration from sampling. The paper's temperature is not known to us; 1.2 is a choice.
# Not run on a GPU yet.
# --help lists what can be set, with examples, and what to change for less memory.
SIZE=3b
ADV_ESTIMATOR=grpo
TEMPERATURE=${TEMPERATURE:-1.2}
# shellcheck source-path=SCRIPTDIR source=lib/paper.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/paper.sh" "$@"
