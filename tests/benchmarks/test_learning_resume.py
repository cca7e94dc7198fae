# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""A grid that is done in several goes, with a training that leaves its files at once."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.learning import grid, schedule
from benchmarks.learning import store as store_module
from benchmarks.learning.__main__ import app
from benchmarks.learning.arms import ARMS, TASKS, Run
from benchmarks.learning.arms import grid as grid_of
from benchmarks.learning.compact import ALL_RIGHT, ALL_WRONG, ZERO_VARIANCE
from benchmarks.learning.grid import Estimate, TrainJob
from benchmarks.learning.store import Store, data_digest, read
from epgrpo_verl.view.metrics import REWARD

FAKE = Path(__file__).with_name("fake_training.py")
STEPS = 6
ARM_NAMES = ("grpo", "ep_grpo", "ep_grpo-no_gate")


@pytest.fixture
def fake(monkeypatch) -> dict:
    """Replaces the training by one that takes no time. ``broken`` holds the runs that shall break."""
    state = {"broken": set(), "started": [], "weights": "weights"}
    start = TrainJob.start

    def start_fake(job: TrainJob):
        run, where = job.run, job.where
        state["started"].append(str(run))
        make = (
            f"import pathlib; p = pathlib.Path({str(where.data)!r}); (p / 'model').mkdir(parents=True, exist_ok=True)"
        )
        make += f"; (p / 'model' / 'model.safetensors').write_text({state['weights']!r} + {str(run.seed)!r})"
        job.prepare = [sys.executable, "-S", "-c", make]
        job.train = [sys.executable, str(FAKE), str(where.out), str(run.task.steps)]
        job.train += ["break"] * (str(run) in state["broken"])
        return start(job)

    monkeypatch.setattr(TrainJob, "start", start_fake)
    monkeypatch.setattr(schedule, "POLL_S", 0.02)
    data_digest.cache_clear()
    return state


def invoke(folder: Path, *options: str):
    places = ["--results", str(folder / "results"), "--work", str(folder / "work")]
    arms = [word for name in ARM_NAMES for word in ("--arm", name)]
    return CliRunner().invoke(
        app, ["run", "--task", "easy", "--seeds", "2", "--steps", str(STEPS), *arms, *places, *options]
    )


def names(folder: Path) -> set[str]:
    return {str(file.relative_to(folder / "results")) for file in (folder / "results").rglob("*.json")}


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_broken_run_is_done_again_and_the_others_are_not(fake, tmp_path, jobs):
    fake["broken"] = {"easy/ep_grpo/seed0"}
    first = invoke(tmp_path, "--jobs", jobs)
    assert first.exit_code == 1, first.output
    assert "logged for 5 of 6 steps" in first.output
    assert "Not finished: easy/ep_grpo/seed0" in first.output
    assert len(names(tmp_path)) == 5 and "easy/ep_grpo/seed0.json" not in names(tmp_path)
    kept = {file: file.stat().st_mtime_ns for file in (tmp_path / "results").rglob("*.json*")}

    fake.update(broken=set(), started=[])
    second = invoke(tmp_path)
    assert second.exit_code == 0, second.output
    assert "6 runs, 5 done, 1 to do" in second.output
    assert fake["started"] == ["easy/ep_grpo/seed0"]
    assert len(names(tmp_path)) == 6
    assert all(file.stat().st_mtime_ns == time for file, time in kept.items())

    fake["started"] = []
    assert "6 runs, 6 done, 0 to do" in invoke(tmp_path).output
    assert fake["started"] == []


def test_the_time_left_comes_from_the_stored_runs(fake, tmp_path):
    store = Store(tmp_path)
    runs = grid_of([replace(TASKS["easy"], steps=30)], [ARMS["grpo"], ARMS["ep_grpo"]], range(3))
    rough = Estimate(store, runs)
    assert rough.of(runs[0]) == 75 + 30 * 4
    assert rough.left([], runs, 2) == pytest.approx(3 * 195)
    for run, seconds in zip(runs, (100.0, 90.0, 200.0), strict=False):
        store.save(run, {}, "data", {}, {"seconds": seconds})
    measured = Estimate(store, runs)
    assert measured.of(runs[5]) == 100.0
    job = TrainJob(runs[3], None, store, {}, [], [])
    job.elapsed = lambda: 30.0
    assert measured.left([job], runs[4:], 1) == pytest.approx(70 + 200)
    assert measured.left([job], [], 2) == pytest.approx(70)  # no faster than the run that is under way


def test_what_is_kept_is_small_and_says_what_it_is(fake, tmp_path):
    assert invoke(tmp_path).exit_code == 0
    files = sorted((tmp_path / "results").rglob("*.json*"))
    assert len(files) == 12
    assert all(file.stat().st_size < 6000 for file in files)
    assert not any(str(tmp_path) in file.read_text() for file in files)  # fit to be committed
    stored = Store(tmp_path / "results").load(Run(TASKS["easy"], ARMS["ep_grpo"], 1))
    assert stored.settings["steps"] == STEPS and "algorithm.adv_estimator=ep_grpo" in stored.settings["train"]
    assert stored.series[REWARD][1] == pytest.approx(0.328125, rel=1e-4)
    shares = {name: set(stored.series[name].values()) for name in (ZERO_VARIANCE, ALL_WRONG, ALL_RIGHT)}
    assert shares == {ZERO_VARIANCE: {0.5}, ALL_WRONG: {0.25}, ALL_RIGHT: {0.25}}


def test_changed_settings_are_refused_and_named(fake, tmp_path):
    assert invoke(tmp_path).exit_code == 0
    fake["started"] = []
    done = invoke(tmp_path, "--steps", "5")
    assert done.exit_code == 2
    assert "steps: 6 is now 5" in done.output and "--results" in done.output
    assert fake["started"] == []


def test_settings_that_the_task_shares_are_checked_for_runs_that_are_not_stored(fake, tmp_path, monkeypatch):
    """Other seeds or arms must not get another learning rate than the stored runs of the task."""
    assert invoke(tmp_path).exit_code == 0
    fake["started"] = []
    faster = replace(TASKS["easy"], lr=1e-3)
    monkeypatch.setitem(TASKS, "easy", faster)
    done = invoke(tmp_path, "--first-seed", "2")
    assert done.exit_code == 2
    assert "easy/grpo/seed2 would have other settings" in done.output
    assert "optim.lr=0.0005 is now actor_rollout_ref.actor.optim.lr=0.001" in done.output
    assert fake["started"] == []


def test_an_arm_with_a_learning_rate_of_its_own_shares_the_tasks(fake, tmp_path):
    assert invoke(tmp_path).exit_code == 0
    places = ["--results", str(tmp_path / "results"), "--work", str(tmp_path / "work")]
    only = ["--task", "easy", "--seeds", "1", "--steps", str(STEPS), "--arm", "grpo-lr_x2", "--arm", "ep_grpo-eta0.5"]
    done = CliRunner().invoke(app, ["run", *only, *places])
    assert done.exit_code == 0, done.output
    assert {"easy/grpo-lr_x2/seed0.json", "easy/ep_grpo-eta0.5/seed0.json"} <= names(tmp_path)


def test_a_run_is_stored_with_the_source_that_it_started_with(fake, tmp_path, monkeypatch):
    asked = iter(range(100))
    monkeypatch.setattr(store_module, "code_digest", lambda: f"source {next(asked)}")
    assert invoke(tmp_path).exit_code == 0
    digests = [read(file).about["code"] for file in (tmp_path / "results").rglob("*.json")]
    assert sorted(digests) == [f"source {run}" for run in range(6)]


def test_another_initial_model_is_refused(fake, tmp_path):
    assert invoke(tmp_path).exit_code == 0
    (tmp_path / "results/easy/ep_grpo/seed1.json").unlink()
    fake["weights"] = "other weights"
    data_digest.cache_clear()
    done = invoke(tmp_path)
    assert done.exit_code == 1
    assert "another model" in done.output
    assert "easy/ep_grpo/seed1.json" not in names(tmp_path)


def test_a_second_grid_in_the_same_folder_is_refused(fake, tmp_path):
    for option in ("--work", "--results"):
        with grid.alone(tmp_path / option.strip("-"), option):
            done = invoke(tmp_path)
        assert done.exit_code == 2
        assert f"another {option}" in done.output
        assert fake["started"] == []


def test_metrics_without_settings_are_not_a_finished_run(fake, tmp_path):
    """The settings are written last, so a run that is killed in between is not there."""
    assert invoke(tmp_path).exit_code == 0
    file = tmp_path / "results/easy/grpo/seed0.json"
    file.rename(file.with_suffix(".part"))
    assert "6 runs, 5 done, 1 to do" in invoke(tmp_path).output
    assert json.loads(file.read_text())["settings"]["seed"] == 0
