# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The runs of the grid: their order, their commands, and what verl's own config makes of them."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf
from typer.testing import CliRunner

from benchmarks.learning.__main__ import app
from benchmarks.learning.arms import ARMS, BASELINE, PRIMARY, STUDIES, TASKS, Run, arms_of, grid
from benchmarks.learning.commands import ROOT, commands, folders
from epgrpo_verl.cpu.settings import merge_overrides
from epgrpo_verl.cpu.settings import overrides as cpu_overrides
from epgrpo_verl.plugin.preflight import settings

OWN = {"algorithm.adv_estimator", "actor_rollout_ref.actor.optim.lr", "trainer.rollout_data_dir"}
"""What arms may differ in, beside algorithm.ep_grpo."""


def composed(run: Run) -> DictConfig:
    """verl's own config from the command of a run."""
    import verl.trainer
    from hydra import compose, initialize_config_dir

    _, train = commands(run, folders(Path("/grid"), run))
    first = next(index for index, word in enumerate(train) if word.startswith("algorithm."))
    with initialize_config_dir(str(Path(verl.trainer.__file__).parent / "config"), version_base=None):
        return compose("ppo_trainer", merge_overrides(cpu_overrides("hf"), train[first:]))


def leaves(config: DictConfig) -> dict[str, object]:
    found: dict[str, object] = {}

    def walk(node: object, path: str) -> None:
        if isinstance(node, dict) and node:
            for key, value in node.items():
                walk(value, f"{path}.{key}" if path else str(key))
        else:
            found[path] = node

    # Of the other sections verl's teacher and critic repeat values of the actor.
    config = {key: config[key] for key in ("algorithm", "actor_rollout_ref", "data", "reward", "trainer")}
    walk(OmegaConf.to_container(OmegaConf.create(config)), "")
    return found


@pytest.fixture(scope="module")
def baseline() -> dict[str, object]:
    return leaves(composed(Run(TASKS["easy"], ARMS[BASELINE], 3)))


@pytest.mark.parametrize("name", ARMS)
def test_arms_differ_in_nothing_but_what_they_are_named_after(name, baseline):
    arm = ARMS[name]
    config = composed(Run(TASKS["easy"], arm, 3))
    ours = leaves(config)
    differing = {key for key in ours.keys() | baseline.keys() if ours.get(key) != baseline.get(key)}
    differing = {key for key in differing if not key.startswith("algorithm.ep_grpo")}
    assert differing <= OWN
    assert config.algorithm.adv_estimator == arm.estimator
    assert config.actor_rollout_ref.actor.optim.lr == TASKS["easy"].lr * arm.lr_factor
    maths, _ = settings(config.algorithm)
    for override in arm.overrides:
        key, value = override.removeprefix("+algorithm.ep_grpo.").split("=")
        assert str(getattr(maths, key)) == value
    assert ("algorithm.adv_estimator" in differing) == (arm.estimator != "grpo")


def test_an_arm_sets_what_is_not_the_default():
    """An arm that repeats a default would be a second copy of EP-GRPO."""
    default, _ = settings(composed(Run(TASKS["easy"], ARMS[PRIMARY], 0)).algorithm)
    for arm in ARMS.values():
        for override in arm.overrides:
            key, value = override.removeprefix("+algorithm.ep_grpo.").split("=")
            assert str(getattr(default, key)) != value, override


@pytest.mark.parametrize("task", TASKS)
def test_verl_takes_the_config_of_every_task(task):
    run = Run(TASKS[task], ARMS[PRIMARY], 5)
    config = composed(run)
    assert config.data.seed == config.actor_rollout_ref.rollout.seed == 5
    assert config.actor_rollout_ref.model.path == f"/grid/data/{task}-seed5/model"
    assert config.trainer.save_freq == -1 and config.trainer.val_before_train
    _, train = commands(run, folders(Path("/grid"), run))
    assert train[train.index("--steps") + 1] == str(TASKS[task].steps)


def test_the_arms_of_a_seed_share_model_and_data_and_no_other_folder():
    runs = grid([TASKS["easy"]], arms_of(STUDIES), [0, 1])
    places = [folders(Path("/grid"), run) for run in runs]
    assert {place.data for place in places} == {Path("/grid/data/easy-seed0"), Path("/grid/data/easy-seed1")}
    assert len({place.out for place in places}) == len(runs)


def test_a_seed_of_all_arms_comes_before_the_next_seed():
    runs = grid([TASKS["easy"], TASKS["hard"]], STUDIES["core"], range(2))
    assert [run.seed for run in runs] == [0] * 10 + [1] * 10
    assert [run.task.name for run in runs[:10]] == ["easy"] * 5 + ["hard"] * 5


def test_every_study_has_the_two_that_everything_is_compared_with():
    assert all({BASELINE, PRIMARY} <= {arm.name for arm in arms} for arms in STUDIES.values())
    assert arms_of(["core", "gamma"]).count(ARMS[PRIMARY]) == 1


def test_a_knob_in_the_callers_environment_changes_nothing(monkeypatch):
    run = Run(TASKS["easy"], ARMS[PRIMARY], 0)
    before = commands(run, folders(Path("/grid"), run))
    for name, value in {"ROLLOUT_N": "3", "OMP_NUM_THREADS": "2", "TRAIN_BATCH_SIZE": "1", "RESUME": "1"}.items():
        monkeypatch.setenv(name, value)
    assert commands(run, folders(Path("/grid"), run)) == before


def test_the_dry_run_lists_every_command_and_makes_nothing(tmp_path):
    results, work = tmp_path / "results", tmp_path / "work"
    options = ["--task", "easy", "--study", "core", "--seeds", "2", "--results", str(results), "--work", str(work)]
    done = CliRunner().invoke(app, ["run", "--dry-run", *options])
    assert done.exit_code == 0, done.output
    *lines, summary = done.output.splitlines()
    assert len(lines) == 10
    assert all(str(ROOT / "recipes/run_cpu_quickstart.sh") in shlex.split(line) for line in lines)
    assert sum("ADV=grpo " in line for line in lines) == 2
    assert sum("+algorithm.ep_grpo.gate=False" in line for line in lines) == 2
    # 10 runs of 30 steps of 4 s, and 75 s around them.
    assert "10 runs, 0 done, 10 to do: about 32 min with --jobs 1" in summary
    assert not results.exists() and not work.exists()


def test_an_unknown_arm_is_named():
    done = CliRunner().invoke(app, ["run", "--dry-run", "--arm", "ppo"])
    assert done.exit_code == 2
    assert "--arm ppo" in done.output


def test_the_list_names_every_task_and_arm():
    done = CliRunner().invoke(app, ["list"], env={"COLUMNS": "200"})
    assert done.exit_code == 0
    assert all(name in done.output for name in [*TASKS, *ARMS, *STUDIES])
