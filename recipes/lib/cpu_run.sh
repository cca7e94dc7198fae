# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# The shared body of the run_cpu_*.sh recipes: a virtual environment, model and data, a training of verl on a CPU, a summary.
# A recipe sets what differs from the others: the knobs that have no default below, NAME, PREPARE (a command of
# epgrpo_verl.quickstart), ROLLOUT_ARGS (overrides of its own), REWARD_MODULE, and the lengths and sizes that DATA to
# ROLLOUT_ARGS read. Then it sources this file.
#
# Examples:
#   ADV=grpo STEPS=60 RECIPE
#   ROLLOUT=vllm RECIPE
#   OUT=runs/mine RESUME=1 RECIPE
#   RECIPE +algorithm.ep_grpo.eta=0.1 actor_rollout_ref.actor.ppo_epochs=2
#   DRY_RUN=1 RECIPE

# shellcheck source-path=SCRIPTDIR source=../../scripts/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/environment.sh"
# shellcheck source-path=SCRIPTDIR source=paths.sh
source "$(dirname "${BASH_SOURCE[0]}")/paths.sh"
# shellcheck source-path=SCRIPTDIR source=help.sh
source "$(dirname "${BASH_SOURCE[0]}")/help.sh"
restart_for_help "$@"

# Those of verl 0.9.1. To use another, leave ADV alone and put algorithm.adv_estimator=NAME on the command line.
VERL_ESTIMATORS="grpo gdpo gpg grpo_passk grpo_vectorized opo optimal_token_baseline reinforce_plus_plus \
reinforce_plus_plus_baseline remax rloo rloo_vectorized tir_optimal_token_baseline"
STEPS=${STEPS:?}                             # training steps of the whole run
SEED=${SEED:?}                               # of model, data, their order, and rollouts
SAVE_FREQ=${SAVE_FREQ:?}                     # steps between two checkpoints
TRAIN_BATCH_SIZE=${TRAIN_BATCH_SIZE:?}       # prompts of a step
ROLLOUT_N=${ROLLOUT_N:?}                     # responses to each prompt: a group
LR=${LR:?}                                   # learning rate
MAX_RESPONSE_LENGTH=${MAX_RESPONSE_LENGTH:?} # tokens of the longest response
TEMPERATURE=${TEMPERATURE:-1.0} # of the rollout
ADV=${ADV:-ep_grpo} # grpo runs the baseline; any estimator of verl's that needs no critic
ROLLOUT=${ROLLOUT:-hf} # hf: transformers' generate(); vllm: vLLM's CPU build (x86-64, about 2 GB more)
OUT=${OUT:-$PROJECT_ROOT/runs/$NAME-$ADV-$ROLLOUT-seed$SEED} # folder of the run; one run at a time may use it
RESUME=${RESUME:-0} # 1 goes on from the last checkpoint in OUT; 0 removes what a former run left there
DATA_DIR=${DATA_DIR:-$PROJECT_ROOT/runs/data/$NAME-seed$SEED} # folder of model and data
THREADS=${THREADS:-${OMP_NUM_THREADS:-1}} # threads of torch in each process; default: OMP_NUM_THREADS if that is set
DRY_RUN=${DRY_RUN:-0} # 1 prints the commands; makes, installs and runs nothing
case $ROLLOUT in
    hf) build=cpu ;;
    vllm) build=cpu-vllm ;;
    *)
        echo "ROLLOUT=$ROLLOUT is neither hf nor vllm" >&2
        exit 2
        ;;
esac
REQUIREMENTS=$PROJECT_ROOT/requirements/$build.txt
ENV_DIR=${ENV_DIR:-$PROJECT_ROOT/.venv-$build} # the virtual environment to make and use
ENV_PYTHON=${ENV_PYTHON:-} # a Python with everything installed, instead of an environment

if [ "${EPGRPO_HELP:-0}" = 1 ]; then
    show_help "${BASH_SOURCE[0]}" "$PROJECT_ROOT/scripts/environment.sh"
    exit
fi
refuse() {
    echo "$1=${!1} $2" >&2
    exit 2
}
for knob in STEPS TRAIN_BATCH_SIZE ROLLOUT_N MAX_RESPONSE_LENGTH THREADS; do
    [[ ${!knob} =~ ^[1-9][0-9]*$ ]] || refuse "$knob" "is not a whole number of at least 1, without leading zeros"
done
# Hydra reads 007 as a text.
[[ $SEED =~ ^(0|[1-9][0-9]*)$ ]] || refuse SEED "is not a whole number of at least 0, without leading zeros"
[[ $SAVE_FREQ =~ ^(-1|0|[1-9][0-9]*)$ ]] || refuse SAVE_FREQ "is no whole number without leading zeros; -1 and 0 are never"
number='([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?'
[[ $LR =~ ^$number$ ]] || refuse LR "is not a number of at least 0, such as 1e-5"
[[ $TEMPERATURE =~ ^$number$ && $TEMPERATURE =~ ^[0.]*[1-9] ]] || refuse TEMPERATURE "is not a number above 0"
for knob in RESUME DRY_RUN; do
    case ${!knob} in
        0 | 1) ;;
        *)
            echo "$knob=${!knob} is neither 0 nor 1" >&2
            exit 2
            ;;
    esac
done
check_paths OUT DATA_DIR
# verl finds an unknown estimator only after it has generated a whole batch.
if ! [[ $ADV =~ ^[a-z0-9_]+$ && " ep_grpo $VERL_ESTIMATORS " == *" $ADV "* ]]; then
    refuse ADV "is neither ep_grpo nor one of verl's advantage estimators without a critic: $VERL_ESTIMATORS"
fi
for override in "$@"; do
    if [[ $override != *=* && $override != \~* ]]; then
        echo "'$override' is not a Hydra override such as actor_rollout_ref.actor.optim.lr=1e-4" >&2
        exit 2
    fi
done

# verl splits the responses of a batch into micro-batches of one size: the largest that divides them, up to the recipe's.
largest_divisor() {
    local divisor=$2
    while ((TRAIN_BATCH_SIZE * ROLLOUT_N % divisor)); do ((divisor -= 1)); done
    printf -v "$1" %d "$divisor"
}
largest_divisor MICRO_BATCH_SIZE "$MICRO_BATCH_SIZE"
largest_divisor LOG_PROB_MICRO_BATCH_SIZE "$LOG_PROB_MICRO_BATCH_SIZE"
MAX_MODEL_LEN=${MAX_MODEL_LEN:-$((MAX_PROMPT_LENGTH + MAX_RESPONSE_LENGTH))}

PREPARE=(-m epgrpo_verl.quickstart "${PREPARE[@]}" --out "$DATA_DIR" --seed "$SEED")
DATA=(
    data.train_files="$(quoted "$DATA_DIR/train.parquet")"
    data.val_files="$(quoted "$DATA_DIR/test.parquet")"
    data.train_batch_size="$TRAIN_BATCH_SIZE"
    data.max_prompt_length="$MAX_PROMPT_LENGTH"
    data.max_response_length="$MAX_RESPONSE_LENGTH"
    data.seed="$SEED"
)
MODEL=(
    actor_rollout_ref.model.path="$(quoted "$DATA_DIR/model")"
)
ACTOR=(
    actor_rollout_ref.actor.optim.lr="$LR"
    actor_rollout_ref.actor.ppo_mini_batch_size="$TRAIN_BATCH_SIZE"
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu="$MICRO_BATCH_SIZE"
    actor_rollout_ref.actor.data_loader_seed="$SEED"
    actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu="$LOG_PROB_MICRO_BATCH_SIZE"
)
ROLLOUT_ARGS+=(
    actor_rollout_ref.rollout.n="$ROLLOUT_N"
    actor_rollout_ref.rollout.temperature="$TEMPERATURE"
    actor_rollout_ref.rollout.seed="$SEED"
    actor_rollout_ref.rollout.max_model_len="$MAX_MODEL_LEN"
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu="$LOG_PROB_MICRO_BATCH_SIZE"
)
REWARD=(
    reward.custom_reward_function.path="pkg://$REWARD_MODULE"
    reward.custom_reward_function.name=compute_score
)
TRAINER=(
    trainer.project_name=epgrpo
    trainer.experiment_name="$NAME"
    trainer.save_freq="$SAVE_FREQ"
    trainer.test_freq=-1
    trainer.val_before_train=False
    trainer.max_actor_ckpt_to_keep=1
)
OVERRIDES=(
    algorithm.adv_estimator="$ADV"
    "${DATA[@]}" "${MODEL[@]}" "${ACTOR[@]}" "${ROLLOUT_ARGS[@]}" "${REWARD[@]}" "${TRAINER[@]}" "$@"
)
TRAIN=(-m epgrpo_verl.quickstart train --out "$OUT" --steps "$STEPS" --rollout "$ROLLOUT" --threads "$THREADS")
if [ "$RESUME" = 1 ]; then TRAIN+=(--resume); fi

if [ "$DRY_RUN" = 1 ]; then
    for part in PREPARE TRAIN; do
        declare -n words=$part
        printf '%q ' "${ENV_PYTHON:-$ENV_DIR/bin/python}" "${words[@]}"
        if [ "$part" = TRAIN ]; then printf '\\\n    %q ' "${OVERRIDES[@]}"; fi
        printf '\n'
    done
    exit
fi

if [ -z "$ENV_PYTHON" ]; then
    make_environment "$ENV_DIR" "$REQUIREMENTS"
    if [ -n "${EXTRA_PACKAGE:-}" ] && ! "$ENV_PYTHON" -m pip show -q "${EXTRA_PACKAGE%%=*}" 2>/dev/null; then
        "$ENV_PYTHON" -m pip install -q --no-deps "$EXTRA_PACKAGE"
    fi
fi
"$ENV_PYTHON" "${PREPARE[@]}"
exec "$ENV_PYTHON" "${TRAIN[@]}" "${OVERRIDES[@]}"
