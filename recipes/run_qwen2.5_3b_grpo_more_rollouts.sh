#!/usr/bin/env bash
# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
# Baseline: GRPO with twice the rollouts. The paper's number is not known to us; 16 is a choice.
# Not run on a GPU yet.
# --help lists what can be set, with examples, and what to change for less memory.
SIZE=3b
ADV_ESTIMATOR=grpo
ROLLOUT_N=${ROLLOUT_N:-16}
# shellcheck source-path=SCRIPTDIR source=lib/paper.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/paper.sh" "$@"
