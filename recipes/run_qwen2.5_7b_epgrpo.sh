#!/usr/bin/env bash
# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
# EP-GRPO on Qwen2.5-7B with LoRA: four 80 GB GPUs, or NGPUS_PER_NODE=8.
# Not run on a GPU yet.
# --help lists what can be set, with examples, and what to change for less memory.
SIZE=7b
# shellcheck source-path=SCRIPTDIR source=lib/paper.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/paper.sh" "$@"
