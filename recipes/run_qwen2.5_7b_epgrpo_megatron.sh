#!/usr/bin/env bash
# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
# EP-GRPO on Qwen2.5-7B with LoRA, trained by Megatron instead of FSDP: four 80 GB GPUs. Needs megatron-core and Megatron-Bridge.
# Not run on a GPU yet.
# --help lists what can be set, with examples, and what to change for less memory.
SIZE=7b
ENGINE=megatron
# shellcheck source-path=SCRIPTDIR source=lib/paper.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/paper.sh" "$@"
