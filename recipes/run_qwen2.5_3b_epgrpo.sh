#!/usr/bin/env bash
# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
# EP-GRPO on Qwen2.5-3B with LoRA: one 80 GB GPU.
# Not run on a GPU yet.
# --help lists what can be set, with examples, and what to change for less memory.
SIZE=3b
# shellcheck source-path=SCRIPTDIR source=lib/paper.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/paper.sh" "$@"
