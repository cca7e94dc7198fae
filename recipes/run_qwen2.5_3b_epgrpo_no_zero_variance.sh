#!/usr/bin/env bash
# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
# Ablation: EP-GRPO without the zero-variance rule: groups with equal rewards give no signal.
# Not run on a GPU yet.
# --help lists what can be set, with examples, and what to change for less memory.
SIZE=3b
# shellcheck source-path=SCRIPTDIR source=lib/paper.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/paper.sh" +algorithm.ep_grpo.zero_variance=False "$@"
