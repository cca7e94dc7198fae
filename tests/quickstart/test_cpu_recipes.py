# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What the CPU recipes make of their knobs. `DRY_RUN=1` prints the commands and runs nothing."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from epgrpo_verl.cpu.settings import merge_overrides, overrides

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ("run_cpu_quickstart.sh", "run_cpu_smollm2_135m.sh")


def call(recipe: str, *arguments: str, **knobs: str) -> subprocess.CompletedProcess:
    clean = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return subprocess.run(
        ["bash", str(ROOT / "recipes" / recipe), *arguments],
        env={**clean, "DRY_RUN": "1", **knobs},
        capture_output=True,
        text=True,
        check=False,
    )


def commands(recipe: str, *arguments: str, **knobs: str) -> tuple[list[str], list[str]]:
    """The words of the two commands: the one that prepares, the one that trains."""
    done = call(recipe, *arguments, **knobs)
    assert done.returncode == 0, done.stderr
    prepare, train = done.stdout.replace("\\\n", "").splitlines()
    return shlex.split(prepare), shlex.split(train)


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_default_is_ep_grpo_with_the_transformers_rollout(recipe):
    prepare, train = commands(recipe)
    assert prepare[0] == train[0] == str(ROOT / ".venv-cpu/bin/python")
    assert "algorithm.adv_estimator=ep_grpo" in train
    assert train[train.index("--rollout") + 1] == "hf"
    assert "--resume" not in train


@pytest.mark.parametrize("recipe", RECIPES)
def test_knobs_reach_the_commands(recipe, tmp_path):
    prepare, train = commands(
        recipe, "a.b=c d", "~e.f", ADV="grpo", ROLLOUT="vllm", STEPS="7", SEED="3", RESUME="1", OUT=str(tmp_path)
    )
    assert prepare[prepare.index("--seed") + 1] == "3"
    assert train[0] == str(ROOT / ".venv-cpu-vllm/bin/python")
    assert train[train.index("--steps") + 1] == "7"
    assert train[train.index("--out") + 1] == str(tmp_path)
    assert train[train.index("--rollout") + 1] == "vllm"
    assert "--resume" in train
    assert {"algorithm.adv_estimator=grpo", "data.seed=3", "actor_rollout_ref.rollout.seed=3"} <= set(train)
    assert train[-2:] == ["a.b=c d", "~e.f"]


def test_paths_with_spaces_stay_whole(tmp_path):
    data = tmp_path / "my data"
    prepare, train = commands("run_cpu_quickstart.sh", DATA_DIR=str(data), ENV_PYTHON="/usr/bin/my python")
    assert prepare[0] == "/usr/bin/my python"
    assert prepare[prepare.index("--out") + 1] == str(data)
    assert f"data.train_files='{data / 'train.parquet'}'" in train


def test_difficulty_reaches_the_data():
    prepare, train = commands("run_cpu_quickstart.sh", DIFFICULTY="hard")
    assert prepare[prepare.index("--difficulty") + 1] == "hard"
    assert "data.max_response_length=36" in train


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(
    ("knobs", "arguments", "named"),
    [
        ({"ROLLOUT": "sglang"}, (), "ROLLOUT=sglang"),
        ({"STEPS": "many"}, (), "STEPS=many"),
        ({"STEPS": "0"}, (), "STEPS=0"),
        ({"SEED": "-1"}, (), "SEED=-1"),
        ({"SEED": "007"}, (), "SEED=007"),
        ({"LR": "fast"}, (), "LR=fast"),
        ({"LR": "-1e-5"}, (), "LR=-1e-5"),
        ({"TRAIN_BATCH_SIZE": "abc"}, (), "TRAIN_BATCH_SIZE=abc"),
        ({"TRAIN_BATCH_SIZE": "0"}, (), "TRAIN_BATCH_SIZE=0"),
        ({"ROLLOUT_N": "0"}, (), "ROLLOUT_N=0"),
        ({"THREADS": "0"}, (), "THREADS=0"),
        ({"THREADS": "4,2"}, (), "THREADS=4,2"),
        ({"SAVE_FREQ": "often"}, (), "SAVE_FREQ=often"),
        ({"ADV": "nonsense"}, (), "ADV=nonsense is neither ep_grpo nor"),
        ({"ADV": "grpo gdpo"}, (), "ADV=grpo gdpo"),
        ({"ADV": "gae"}, (), "without a critic"),
        ({"OUT": "/tmp/${x}"}, (), "OUT=/tmp/${x} cannot be given to verl as a path because of the ${ in it"),
        ({"OUT": "/tmp/a\\"}, (), "because of the \\ in it: set OUT"),
        ({"DATA_DIR": "/tmp/a*"}, (), "because of the * in it: set DATA_DIR"),
        ({"DATA_DIR": "/tmp/[1]"}, (), "because of the [ in it: set DATA_DIR"),
        ({"DATA_DIR": "/tmp/a\nb"}, (), "because of the line break in it: set DATA_DIR"),
        ({}, ("lr",), "'lr'"),
    ],
)
def test_a_knob_that_cannot_work_is_named(recipe, knobs, arguments, named):
    done = call(recipe, *arguments, **knobs)
    assert done.returncode == 2
    assert named in done.stderr


@pytest.mark.parametrize(
    "knobs",
    [{"LR": "1e-5"}, {"LR": ".5"}, {"LR": "0"}, {"SEED": "0"}, {"SAVE_FREQ": "-1"}, {"ADV": "reinforce_plus_plus"}],
)
def test_a_knob_that_works_is_not_refused(knobs):
    _, train = commands("run_cpu_quickstart.sh", **knobs)
    assert any(word.endswith(f"={next(iter(knobs.values()))}") for word in train)


@pytest.mark.parametrize(
    ("knob", "value"),
    [("TEMPERATURE", "0"), ("TEMPERATURE", "0e5"), ("TEMPERATURE", "warm"), ("MAX_RESPONSE_LENGTH", "abc")],
)
def test_a_knob_of_one_recipe_is_named(knob, value):
    done = call("run_cpu_smollm2_135m.sh", **{knob: value})
    assert done.returncode == 2
    assert f"{knob}={value} is not" in done.stderr


def test_the_estimators_are_those_of_verl():
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY

    refusal = call("run_cpu_quickstart.sh", ADV="nonsense").stderr
    assert set(refusal.rpartition(":")[2].split()) == {str(name) for name in ADV_ESTIMATOR_REGISTRY} - {
        "ep_grpo",
        "gae",
    }


@pytest.mark.parametrize(("prompts", "size"), [("8", "64"), ("4", "32"), ("7", "56"), ("9", "36"), ("16", "64")])
def test_micro_batches_divide_the_responses(prompts, size):
    _, train = commands("run_cpu_quickstart.sh", TRAIN_BATCH_SIZE=prompts)
    assert f"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu={size}" in train
    assert f"actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu={size}" in train


def test_an_unknown_difficulty_is_named():
    done = call("run_cpu_quickstart.sh", DIFFICULTY="brutal")
    assert done.returncode == 2
    assert "DIFFICULTY=brutal" in done.stderr


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(("rollout", "data"), [("hf", "/data"), ("vllm", "/data"), ("hf", "/o'brien's, {old} (=$1)")])
def test_verl_accepts_the_config(recipe, rollout, data):
    """verl's own config takes every key, and its own checks pass."""
    import verl.trainer
    from hydra import compose, initialize_config_dir

    _, train = commands(recipe, ROLLOUT=rollout, DATA_DIR=data)
    first = next(index for index, word in enumerate(train) if word.startswith("algorithm."))
    folder = str(Path(verl.trainer.__file__).parent / "config")
    with initialize_config_dir(folder, version_base=None):
        config = compose("ppo_trainer", merge_overrides(overrides(rollout), train[first:]))
    rollout_config = config.actor_rollout_ref.rollout
    assert rollout_config.max_model_len >= config.data.max_response_length + 32
    assert (config.data.train_batch_size * rollout_config.n) % config.trainer.n_gpus_per_node == 0
    assert config.data.train_files == f"{data}/train.parquet"
    assert config.actor_rollout_ref.model.path == f"{data}/model"


def test_the_scripts_are_clean():
    scripts = sorted((ROOT / "recipes").glob("run_cpu_*.sh")) + [ROOT / "recipes/lib/cpu_run.sh"]
    done = subprocess.run(
        ["shellcheck", "-x", *map(str, scripts)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_folder_that_is_no_environment_is_left_alone(recipe, tmp_path):
    (tmp_path / "notes.txt").write_text("precious")
    done = call(recipe, DRY_RUN="0", ENV_DIR=str(tmp_path))
    assert done.returncode != 0
    assert f"{tmp_path} has files in it and is no virtual environment: set ENV_DIR" in done.stderr
    assert (tmp_path / "notes.txt").read_text() == "precious"
