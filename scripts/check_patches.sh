#!/usr/bin/env bash
# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
# Applies patches/ to a fresh copy of verl, and runs there verl's own CPU tests of the code that is touched, the tests of
# the patches, the comparison of the three ways to EP-GRPO (hooks, patch, slow reference), and two steps of the CPU
# quickstart, with the plugin beside the patch.
#
#   bash scripts/check_patches.sh          the release that is pinned below, from PyPI
#   bash scripts/check_patches.sh CLONE    HEAD of a git clone of verl, with patches/main/ as well
#
# PYTHON is a Python with verl's dependencies and epgrpo_verl in it; default: python3. `git am` knows no fuzz: a line
# of context that differs is a failure.
set -euo pipefail
# verl's own tests choose their platform themselves.
unset VERL_PLATFORM EPGRPO_CPU
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
python=${PYTHON:-python3}
release="verl==0.9.1 --hash=sha256:db6e6f2a8d9d5808d9ec32d357a42319fdc6967df688ff9d9810050f49bfdd14"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/verl
mkdir "$tree"
series=("$root"/patches/common/*.patch)
if (($#)); then
    git -C "$1" archive HEAD | tar -x -C "$tree"
    series+=("$root"/patches/main/*.patch)
else
    echo "$release" >"$work/requirements.txt"
    "$python" -m pip download --quiet --no-deps --require-hashes -r "$work/requirements.txt" -d "$work"
    "$python" -m zipfile -e "$work"/verl-*.whl "$tree"
fi

cd "$tree"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
git init --quiet
git config user.name check
git config user.email check@example.com
git config core.autocrlf false
git add --all --force
git commit --quiet --message base
git am --keep-non-patch "${series[@]}"

# The generated reference configurations, as verl's pre-commit hook checks them.
export PYTHONPATH=$tree VERL_USE_EXTERNAL_PLUGINS=none
for engine in "" megatron veomni torchtitan; do
    name=_generated_ppo_${engine:+${engine}_}trainer.yaml
    "$python" scripts/print_cfg.py --cfg job ${engine:+model_engine=$engine} 2>/dev/null |
        sed -n '/^actor_rollout_ref/,$p' >"$work/$name"
    sed -n '/^actor_rollout_ref/,$p' "verl/trainer/config/$name" | diff - "$work/$name"
done
echo "The generated configurations are up to date"

"$python" -m pytest -q -p no:cacheprovider -W ignore --rootdir "$tree" -c /dev/null \
    tests/trainer/ppo/test_estimator_fields_on_cpu.py \
    tests/trainer/ppo/test_ep_grpo_on_cpu.py \
    tests/trainer/test_multi_trajectories_advantage_on_cpu.py \
    tests/trainer/ppo/test_reinforce_pp_multiturn_on_cpu.py \
    tests/trainer/ppo/test_dynamic_policy_losses_on_cpu.py \
    tests/trainer/ppo/test_loss_aggregation_on_cpu.py \
    tests/trainer/ppo/test_value_loss_normalization_on_cpu.py \
    tests/trainer/ppo/test_core_algos_on_cpu.py
cd "$root"
"$python" -m pytest -q -p no:cacheprovider -W ignore tests/patches/three_ways.py

log=$work/quickstart.txt
if ! env -u VERL_USE_EXTERNAL_PLUGINS ENV_PYTHON="$python" OUT="$work/run" DATA_DIR="$work/data" STEPS=2 \
    bash recipes/run_cpu_quickstart.sh >"$log" 2>&1 || ! grep -q "step 2/2" "$log"; then
    cat "$log" "$work/run/train.log" >&2
    exit 1
fi
echo "The CPU quickstart trains on the patched verl"
