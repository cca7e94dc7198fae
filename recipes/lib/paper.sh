#!/usr/bin/env bash
# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
#
# The shared body of the run_qwen2.5_*.sh recipes: the experiments of the EP-GRPO paper (arXiv 2605.04960) on verl.
# NOT RUN ON A GPU. In the tests every recipe is composed against verl's own config, passes verl's own checks, and trains
# a tiny model for two steps on a CPU; docs/reproduce.md says which of these runs were seen.
# docs/reproduce.md says which value is the paper's and which is a choice.
#
# A recipe sets what differs in variables and sources this file.
#
# Examples:
#   DRY_RUN=1 RECIPE
#   DATA_DIR=/data OUT_DIR=/runs/mine RECIPE
#   NGPUS_PER_NODE=4 SEED=1 RECIPE +algorithm.ep_grpo.eta=0.1
#
# Out of memory?   PPO_MAX_TOKEN_LEN_PER_GPU=8192 halves activations and logits (at least prompt + response length),
#                  ROLLOUT_GPU_MEM_UTIL=0.4 leaves less to vLLM, PARAM_OFFLOAD=True moves the weights to the CPU while
#                  vLLM generates, more NGPUS_PER_NODE shards them. ROLLOUT_TP=2 splits vLLM's weights over two GPUs.
# Fewer GPUs?      NGPUS_PER_NODE; the result is the same run, slower. TRAIN_BATCH_SIZE * ROLLOUT_N must be divisible by
#                  the number of GPUs.
# Several nodes?   NNODES=2 on a Ray cluster started beforehand, with RAY_ADDRESS set. epgrpo_verl must be installed, and
#                  this folder and DATA_DIR be at the same path, on every node.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
RECIPE=$(basename "$0" .sh)
RECIPE=${RECIPE#run_}
# shellcheck source-path=SCRIPTDIR source=paths.sh
source "$HERE/paths.sh"
# shellcheck source-path=SCRIPTDIR source=help.sh
source "$HERE/help.sh"
restart_for_help "$@"

# ---- what a recipe may set ----
SIZE=${SIZE:?a recipe sets SIZE to 3b or 7b}
ADV_ESTIMATOR=${ADV_ESTIMATOR:-ep_grpo} # verl's name of the advantage estimator
ENGINE=${ENGINE:-fsdp}          # fsdp or megatron
TEMPERATURE=${TEMPERATURE:-1.0} # of the rollout
ROLLOUT_N=${ROLLOUT_N:-8}       # responses to each prompt: a group

case $SIZE in
    3b) model=Qwen/Qwen2.5-3B gpus=1 ;;
    7b) model=Qwen/Qwen2.5-7B gpus=4 ;;
    *)
        echo "SIZE=$SIZE is neither 3b nor 7b" >&2
        exit 2
        ;;
esac

# ---- knobs ----
DRY_RUN=${DRY_RUN:-0} # 1 checks the config as epgrpo doctor does, prints it and a memory plan; no GPU, no model
SKIP_CHECK=${SKIP_CHECK:-0} # 1 trains without that check, which otherwise ends the script if something failed
PRINT_OVERRIDES=${PRINT_OVERRIDES:-0} # 1 prints the overrides, one per line; needs neither verl nor Python
PYTHON=${PYTHON:-python3} # a Python with verl and epgrpo_verl
MODEL_PATH=${MODEL_PATH:-$model} # a name on the hub, or a folder
if [ -d "$MODEL_PATH" ]; then MODEL_PATH=$(realpath "$MODEL_PATH"); fi
# Absolute, since Ray's workers may run in other folders.
DATA_DIR=$(realpath -m "${DATA_DIR:-$HOME/data/epgrpo}") # where epgrpo prepare put the problems
TRAIN_FILE=$(realpath -m "${TRAIN_FILE:-$DATA_DIR/skywork.parquet}") # problems to train on
VAL_SETS=${VAL_SETS:-math500 amc23 minerva aime24 aime25} # names of the sets in DATA_DIR to validate on
OUT_DIR=$(realpath -m "${OUT_DIR:-runs/$RECIPE}") # folder of the run
PROJECT_NAME=${PROJECT_NAME:-epgrpo} # for the loggers
EXPERIMENT_NAME=${EXPERIMENT_NAME:-$RECIPE} # for the loggers
LOGGER=${LOGGER:-'["console","file"]'} # a Hydra list of verl's loggers
NNODES=${NNODES:-1} # machines
NGPUS_PER_NODE=${NGPUS_PER_NODE:-$gpus} # GPUs of each
GPU_MEMORY_GB=${GPU_MEMORY_GB:-80} # for the memory plan only

STEPS=${STEPS:-1000} # training steps
SEED=${SEED:-42} # of the data's order and the rollouts
TRAIN_BATCH_SIZE=${TRAIN_BATCH_SIZE:-8} # prompts per step: 1,000 steps of 8 are one pass over 8,000 problems
PPO_MINI_BATCH_SIZE=${PPO_MINI_BATCH_SIZE:-$TRAIN_BATCH_SIZE} # prompts per update
MAX_PROMPT_LENGTH=${MAX_PROMPT_LENGTH:-1024} # tokens; longer prompts are left out
MAX_RESPONSE_LENGTH=${MAX_RESPONSE_LENGTH:-3072} # tokens
PPO_MAX_TOKEN_LEN_PER_GPU=${PPO_MAX_TOKEN_LEN_PER_GPU:-16384} # tokens of a micro-batch
LR=${LR:-1e-5} # learning rate
LORA_RANK=${LORA_RANK:-32} # 0 trains all weights
LORA_ALPHA=${LORA_ALPHA:-64} # LoRA's scale is this over the rank
PARAM_OFFLOAD=${PARAM_OFFLOAD:-False} # True keeps the actor's weights on the CPU while they are not in use
ACTOR_TP=${ACTOR_TP:-2} # tensor parallelism of the actor, Megatron only
ACTOR_PP=${ACTOR_PP:-1} # pipeline parallelism of the actor, Megatron only
ROLLOUT_TP=${ROLLOUT_TP:-1} # tensor parallelism of vLLM
ROLLOUT_GPU_MEM_UTIL=${ROLLOUT_GPU_MEM_UTIL:-0.5} # share of a GPU's memory for vLLM
SAVE_FREQ=${SAVE_FREQ:-100} # steps between two checkpoints
TEST_FREQ=${TEST_FREQ:-100} # steps between two validations
MAX_CHECKPOINTS=${MAX_CHECKPOINTS:-3} # checkpoints to keep

if [ "${EPGRPO_HELP:-0}" = 1 ]; then
    show_help "${BASH_SOURCE[0]}"
    exit
fi
check_paths MODEL_PATH DATA_DIR TRAIN_FILE OUT_DIR

val_files=
for name in $VAL_SETS; do
    val_files+=${val_files:+,}$(quoted "$DATA_DIR/$name.parquet")
done

# ---- overrides ----
ALGORITHM=(
    algorithm.adv_estimator="$ADV_ESTIMATOR"
    algorithm.use_kl_in_reward=False
)
DATA=(
    data.train_files="$(quoted "$TRAIN_FILE")"
    data.val_files="[$val_files]"
    data.train_batch_size="$TRAIN_BATCH_SIZE"
    data.max_prompt_length="$MAX_PROMPT_LENGTH"
    data.max_response_length="$MAX_RESPONSE_LENGTH"
    data.filter_overlong_prompts=True
    data.truncation=error
    data.seed="$SEED"
)
MODEL=(
    actor_rollout_ref.model.path="$(quoted "$MODEL_PATH")"
    actor_rollout_ref.model.use_remove_padding=True
    actor_rollout_ref.model.enable_gradient_checkpointing=True
)
# Without chunking, the entropy holds float32 copies of a whole micro-batch of logits at once.
ACTOR=(
    actor_rollout_ref.actor.optim.lr="$LR"
    actor_rollout_ref.actor.ppo_mini_batch_size="$PPO_MINI_BATCH_SIZE"
    actor_rollout_ref.actor.use_dynamic_bsz=True
    actor_rollout_ref.actor.ppo_max_token_len_per_gpu="$PPO_MAX_TOKEN_LEN_PER_GPU"
    actor_rollout_ref.actor.entropy_from_logits_with_chunking=True
    actor_rollout_ref.actor.entropy_coeff=0
    actor_rollout_ref.actor.use_kl_loss=False
    actor_rollout_ref.actor.data_loader_seed="$SEED"
)
# The reference needs no line of its own: EP-GRPO turns it on, and with LoRA it is the actor without its adapter.
case $ENGINE in
    fsdp)
        MODEL+=(
            actor_rollout_ref.model.lora_rank="$LORA_RANK"
            actor_rollout_ref.model.lora_alpha="$LORA_ALPHA"
            actor_rollout_ref.model.target_modules=all-linear
        )
        ACTOR+=(actor_rollout_ref.actor.fsdp_config.param_offload="$PARAM_OFFLOAD")
        ;;
    megatron)
        export CUDA_DEVICE_MAX_CONNECTIONS=1
        MODEL+=(
            model_engine=megatron
            actor_rollout_ref.model.lora.rank="$LORA_RANK"
            actor_rollout_ref.model.lora.alpha="$LORA_ALPHA"
        )
        ACTOR+=(
            actor_rollout_ref.actor.megatron.tensor_model_parallel_size="$ACTOR_TP"
            actor_rollout_ref.actor.megatron.pipeline_model_parallel_size="$ACTOR_PP"
            actor_rollout_ref.actor.megatron.param_offload="$PARAM_OFFLOAD"
            actor_rollout_ref.actor.megatron.override_transformer_config.recompute_granularity=full
            actor_rollout_ref.actor.megatron.override_transformer_config.recompute_method=uniform
            actor_rollout_ref.actor.megatron.override_transformer_config.recompute_num_layers=1
        )
        ;;
    *)
        echo "ENGINE=$ENGINE is neither fsdp nor megatron" >&2
        exit 2
        ;;
esac
# The base models stop at <|endoftext|> only, and the chat template ends a turn with <|im_end|>: vLLM stops at both.
ROLLOUT=(
    actor_rollout_ref.rollout.name=vllm
    actor_rollout_ref.rollout.n="$ROLLOUT_N"
    actor_rollout_ref.rollout.temperature="$TEMPERATURE"
    actor_rollout_ref.rollout.seed="$SEED"
    actor_rollout_ref.rollout.tensor_model_parallel_size="$ROLLOUT_TP"
    actor_rollout_ref.rollout.gpu_memory_utilization="$ROLLOUT_GPU_MEM_UTIL"
    actor_rollout_ref.rollout.load_format=safetensors
    +actor_rollout_ref.rollout.engine_kwargs.vllm.generation_config="$(quoted "$HERE/qwen2.5_two_eos")"
)
if [ "$ENGINE" = fsdp ]; then ROLLOUT+=(actor_rollout_ref.rollout.layered_summon=True); fi
REWARD=(
    reward.custom_reward_function.path=pkg://epgrpo_verl.grading
    reward.custom_reward_function.name=compute_score_async
)
TRAINER=(
    trainer.nnodes="$NNODES"
    trainer.n_gpus_per_node="$NGPUS_PER_NODE"
    trainer.total_training_steps="$STEPS"
    trainer.save_freq="$SAVE_FREQ"
    trainer.test_freq="$TEST_FREQ"
    trainer.max_actor_ckpt_to_keep="$MAX_CHECKPOINTS"
    trainer.project_name="$PROJECT_NAME"
    trainer.experiment_name="$EXPERIMENT_NAME"
    trainer.logger="$LOGGER"
    trainer.default_local_dir="$(quoted "$OUT_DIR/checkpoints")"
    trainer.validation_data_dir="$(quoted "$OUT_DIR/validation")"
)
OVERRIDES=(
    "${ALGORITHM[@]}" "${DATA[@]}" "${MODEL[@]}" "${ACTOR[@]}" "${ROLLOUT[@]}" "${REWARD[@]}" "${TRAINER[@]}" "$@"
)

# ---- run ----
if [ "$PRINT_OVERRIDES" = 1 ]; then
    printf '%s\n' "${OVERRIDES[@]}"
    exit
fi
if [ "$DRY_RUN" = 1 ]; then
    exec "$PYTHON" "$HERE/dry_run.py" --gpu-memory-gb "$GPU_MEMORY_GB" -- "${OVERRIDES[@]}"
fi
for name in skywork $VAL_SETS; do
    file=$DATA_DIR/$name.parquet
    if [ "$name" = skywork ]; then file=$TRAIN_FILE; fi
    if [ ! -f "$file" ]; then
        echo "$file is missing. Make it with: epgrpo prepare $name --out '$DATA_DIR' (see docs/reproduce.md)" >&2
        exit 2
    fi
done
# verl finds an unknown estimator only after it has loaded the model and generated a whole batch.
if [ "$SKIP_CHECK" != 1 ]; then
    "$PYTHON" "$HERE/dry_run.py" --check-only -- "${OVERRIDES[@]}"
fi
mkdir -p "$OUT_DIR"
# verl empties the file at every start: each start of a run gets one of its own.
shopt -s nullglob
starts=("$OUT_DIR"/metrics*.jsonl)
export VERL_FILE_LOGGER_PATH=${VERL_FILE_LOGGER_PATH:-$OUT_DIR/metrics-$(printf %03d "${#starts[@]}").jsonl}
# The trainer may run on another node of a cluster, which does not have this shell's environment.
logger_path="+ray_kwargs.ray_init.runtime_env.env_vars.VERL_FILE_LOGGER_PATH=$(quoted "$VERL_FILE_LOGGER_PATH")"
set -x
exec "$PYTHON" -m verl.trainer.main_ppo "$logger_path" "${OVERRIDES[@]}"
