#!/usr/bin/env bash
# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
# A tiny Qwen2 learns chained sums with EP-GRPO on verl's own trainer, without a GPU. ADV=grpo runs the baseline.
# Knobs are set from the environment, here and in lib/cpu_run.sh; Hydra overrides go last on the command line.
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
DATA_DIR=${DATA_DIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/runs/data/$NAME-seed$SEED}

PREPARE=(-m epgrpo_verl.quickstart prepare --out "$DATA_DIR" --difficulty "$DIFFICULTY" --seed "$SEED")
DATA=(
    data.train_files="'$DATA_DIR/train.parquet'"
    data.val_files="'$DATA_DIR/test.parquet'"
    data.train_batch_size="$TRAIN_BATCH_SIZE"
    data.max_prompt_length=32
    data.max_response_length="$MAX_RESPONSE_LENGTH"
    data.seed="$SEED"
)
MODEL=(
    actor_rollout_ref.model.path="'$DATA_DIR/model'"
)
ACTOR=(
    actor_rollout_ref.actor.optim.lr="$LR"
    actor_rollout_ref.actor.ppo_mini_batch_size="$TRAIN_BATCH_SIZE"
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=64
    actor_rollout_ref.actor.data_loader_seed="$SEED"
    actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=64
)
ROLLOUT_ARGS=(
    actor_rollout_ref.rollout.n="$ROLLOUT_N"
    actor_rollout_ref.rollout.seed="$SEED"
    actor_rollout_ref.rollout.max_model_len=96
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=64
)
REWARD=(
    reward.custom_reward_function.path=pkg://epgrpo_verl.quickstart.task
    reward.custom_reward_function.name=compute_score
)
# shellcheck source-path=SCRIPTDIR source=lib/cpu_run.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/cpu_run.sh" "$@"
