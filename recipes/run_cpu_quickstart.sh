#!/usr/bin/env bash
# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
# A tiny Qwen2 learns chained sums with EP-GRPO on verl's own trainer, without a GPU. ADV=grpo runs the baseline.
# --help lists what can be set, with examples.
set -euo pipefail

DIFFICULTY=${DIFFICULTY:-easy} # easy: most groups start mixed; hard: longer sums, most groups start all wrong
STEPS=${STEPS:-30}
SEED=${SEED:-0}
SAVE_FREQ=${SAVE_FREQ:-20}
TRAIN_BATCH_SIZE=${TRAIN_BATCH_SIZE:-8}
ROLLOUT_N=${ROLLOUT_N:-8}
LR=${LR:-5e-4}

case $DIFFICULTY in
    easy) MAX_RESPONSE_LENGTH=24 ;;
    hard) MAX_RESPONSE_LENGTH=36 ;;
    *)
        echo "DIFFICULTY=$DIFFICULTY is neither easy nor hard" >&2
        exit 2
        ;;
esac
NAME=cpu_quickstart-$DIFFICULTY
PREPARE=(prepare --difficulty "$DIFFICULTY")
REWARD_MODULE=epgrpo_verl.quickstart.task
MAX_PROMPT_LENGTH=32
MAX_MODEL_LEN=96
MICRO_BATCH_SIZE=64
LOG_PROB_MICRO_BATCH_SIZE=64
ROLLOUT_ARGS=()
# shellcheck source-path=SCRIPTDIR source=lib/cpu_run.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/cpu_run.sh" "$@"
