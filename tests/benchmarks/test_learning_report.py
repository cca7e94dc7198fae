# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Tables and curves of the learning runs, from runs with known numbers."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.learning.__main__ import app
from benchmarks.learning.arms import ARMS, TASKS, Run
from benchmarks.learning.compact import (
    ALL_RIGHT,
    ALL_WRONG,
    HELD_OUT,
    ZERO_VARIANCE,
    compact,
    dump,
    group_shares,
    load,
    select,
)
from benchmarks.learning.compare import BaselineDifference, summarize, unequal_data, unequal_first_steps
from benchmarks.learning.report import load_results, write_report
from benchmarks.learning.store import Store, changed_settings
from epgrpo_verl.view.metrics import RECOVERED_TOKENS, REWARD, STEP_SECONDS, Metrics

STEPS = 8
GAIN = {"grpo": 0.0, "ep_grpo": 0.2, "ep_grpo-no_gate": -0.1}


def run_series(arm: str, seed: int, steps: int = STEPS, start: float | None = None) -> dict:
    """A run whose reward rises evenly from 0.1 by the end to 0.3 + 0.01 * seed + the gain of the arm."""
    end = 0.3 + 0.01 * seed + GAIN[arm]
    start = 0.1 if start is None else start
    line = {step: start + (end - start) * (step - 1) / (steps - 1) for step in range(1, steps + 1)}
    flat = dict.fromkeys(line, 1.0)
    series = {
        REWARD: line,
        ZERO_VARIANCE: {step: 0.25 for step in line},
        ALL_WRONG: {step: 0.125 for step in line},
        ALL_RIGHT: {step: 0.125 for step in line},
        STEP_SECONDS: {step: 20.0 if step == 1 else 4.0 for step in line},
        "timing_s/adv": {step: 0.02 for step in line},
        "actor/grad_norm": flat,
        HELD_OUT: {0: 0.1, steps: 0.5 + GAIN[arm]},
    }
    if arm == "grpo":
        return series
    ours = {RECOVERED_TOKENS: 0.1, "timing_s/ep_grpo": 0.01, "timing_s/ref": 0.4}
    return series | {name: dict.fromkeys(line, value) for name, value in ours.items()}


def save(
    folder: Path, arm: str, seed: int, data="same", task="easy", batch=8, commit="c0ffee", code="abc", **changes
) -> None:
    """Stores a run. What is not said is the same for all."""
    run = Run(TASKS[task], ARMS[arm], seed)
    steps = changes.get("steps", STEPS)
    words = {"prepare": ["--seed", str(seed)], "train": [f"batch={batch}", f"data.seed={seed}"]}
    settings = {"task": task, "arm": arm, "seed": seed, "steps": steps, **words}
    about = {"seconds": 60.0, "commit": commit, "code": code, "versions": {"verl": "0.9.1"}}
    about["machine"] = {"architecture": "x86_64", "cores": 2}
    Store(folder).save(run, settings, data, run_series(arm, seed, **changes), about)


@pytest.fixture
def results(tmp_path) -> Path:
    for seed in range(6):
        for arm in GAIN:
            save(tmp_path, arm, seed)
    return tmp_path


def arms(folder: Path) -> dict:
    return load_results(folder, "easy", list(GAIN))


def test_every_number_of_the_summary(results):
    grpo, ours, no_gate = summarize(arms(results), level=0.42)
    # The last five of eight even steps: their mean is the middle one, 5/7 of the way.
    assert grpo.final == pytest.approx([0.1 + (0.2 + 0.01 * seed) * 5 / 7 for seed in range(6)], abs=1e-4)
    assert grpo.area == pytest.approx([(0.1 + 0.3 + 0.01 * seed) / 2 for seed in range(6)], abs=1e-4)
    assert ours.final_difference.mean == pytest.approx(0.2 * 5 / 7, abs=1e-4)
    assert ours.area_difference.mean == pytest.approx(0.1, abs=1e-4)
    assert no_gate.area_difference.mean == pytest.approx(-0.05, abs=1e-4)
    assert grpo.final_difference is None
    assert ours.final_difference.p == 2 / 64
    assert ours.held_out == pytest.approx([0.7] * 6)
    assert (grpo.recovered, ours.recovered) == (None, pytest.approx(0.1))
    assert (grpo.zero_variance, grpo.all_wrong_first) == (0.25, 0.125)
    assert grpo.step_seconds == 4.0
    assert grpo.adv_share == pytest.approx(0.02 / 4.0)  # without the first step
    assert (grpo.ref_share, ours.ref_share) == (None, pytest.approx(0.1))
    assert (grpo.estimator_share, ours.estimator_share) == (None, pytest.approx(0.01 / 4.0))
    assert grpo.reached == [None] * 6 and ours.reached == [None] * 5 + [STEPS]


def test_differences_are_paired_by_seed(tmp_path):
    for arm, seeds in (("grpo", (0, 2, 3, 4, 5, 6)), ("ep_grpo", (1, 2, 3, 4, 5, 6))):
        for seed in seeds:
            save(tmp_path, arm, seed)
    difference = summarize(load_results(tmp_path, "easy", ["grpo", "ep_grpo"]), 0.5)[1].area_difference
    assert difference.count == 5
    assert difference.mean == pytest.approx(0.1, abs=1e-4)
    assert difference.interval == pytest.approx((0.1, 0.1), abs=1e-4)


def test_holm_spares_the_comparison_that_was_named_beforehand(results):
    _, ours, no_gate = summarize(arms(results), level=0.5)
    assert ours.final_difference.p_adjusted == ours.final_difference.p == 2 / 64
    for seed in range(6):
        save(results, "ep_grpo-no_gate", seed)
    with_another = arms(results) | {"ep_grpo-eta0.5": arms(results)["ep_grpo-no_gate"]}
    assert summarize(with_another, 0.5)[2].final_difference.p_adjusted == 4 / 64


@pytest.mark.parametrize(
    ("interval", "p", "mean", "words"),
    [
        ((-0.01, 0.03), 0.2, 0.01, "no difference seen"),
        ((0.0, 0.03), 0.03, 0.01, "no difference seen"),
        ((0.01, 0.03), 0.03, 0.02, "higher than GRPO"),
        ((-0.03, -0.01), 0.05, -0.02, "lower than GRPO"),
        ((0.01, 0.03), 0.06, 0.02, "higher in these seeds, not significant"),
        (None, 0.25, 0.5, "too few seeds"),
    ],
)
def test_the_verdict_needs_interval_and_test(interval, p, mean, words):
    assert BaselineDifference(6, mean, interval, p, p).verdict == words


def test_the_report_writes_tables_numbers_and_curves(results, tmp_path):
    done = CliRunner().invoke(app, ["report", "--results", str(results)], env={"COLUMNS": "160"})
    assert done.exit_code == 0, done.output
    text = (results / "learning.md").read_text()
    lines = [line.split(" | ") for line in text.splitlines() if line.startswith("| ") and "---" not in line]
    rows, second = lines[: len(lines) // 2], lines[len(lines) // 2 :]
    for table in (rows, second):
        assert len({len(row) for row in table}) == 1
        assert [row[0].strip("| ") for row in table] == ["arm", *GAIN]
    assert [row[8].strip("| ") for row in rows[1:]] == ["-0.100 [-0.100, -0.100]", "", "-0.150 [-0.150, -0.150]"]
    assert "higher than GRPO" in rows[2][3] and rows[2][4] == "0.031"
    assert "lower than GRPO" in rows[3][3]
    assert "cannot be below 0.031" in text and "WARNING" not in text
    numbers = json.loads((results / "learning.json").read_text())
    assert [arm["arm"] for arm in numbers["easy/core"]["arms"]] == list(GAIN)
    assert (results / "easy-core.png").stat().st_size > 10_000


def test_the_report_can_be_limited_to_the_first_seeds(results, tmp_path):
    write_report(results, tmp_path / "out", seeds=3)
    numbers = json.loads((tmp_path / "out" / "learning.json").read_text())
    assert [arm["seeds"] for arm in numbers["easy/core"]["arms"]] == [[0, 1, 2]] * 3


def test_all_columns_are_of_the_seeds_that_all_arms_have(results, tmp_path):
    (results / "easy/ep_grpo-no_gate/seed5.json").unlink()
    write_report(results, tmp_path / "out")
    numbers = json.loads((tmp_path / "out" / "learning.json").read_text())
    assert [arm["seeds"] for arm in numbers["easy/core"]["arms"]] == [[0, 1, 2, 3, 4]] * 3
    assert "Seeds 5 are left out: not all of these arms have them." in numbers["easy/core"]["notes"]


def test_the_report_lists_every_commit_and_names_seeds_of_unlike_source(results):
    save(results, "grpo", 1, commit="another")
    save(results, "ep_grpo", 3, code="changed", commit="later")
    write_report(results, results)
    text = (results / "learning.md").read_text()
    assert "commit c0ffee, another, source abc." in text and "commit later, source changed." in text
    assert "In seeds 3 the arms ran with different source or versions." in text


def test_a_gradient_norm_that_was_no_number_is_told(results):
    run = Run(TASKS["easy"], ARMS["grpo"], 2)
    stored = Store(results).load(run)
    del stored.series["actor/grad_norm"][3]
    Store(results).save(run, stored.settings, stored.data, stored.series, stored.about)
    write_report(results, results)
    text = (results / "learning.md").read_text()
    assert "In seed 2 of grpo the gradient norm was no finite number in 1 steps" in text


def test_arms_that_do_not_start_alike_are_named(results):
    assert unequal_data(arms(results)) == unequal_first_steps(arms(results)) == []
    save(results, "ep_grpo", 2, start=0.2)
    save(results, "grpo", 4, data="other")
    assert (unequal_data(arms(results)), unequal_first_steps(arms(results))) == ([4], [2])
    write_report(results, results)
    text = (results / "learning.md").read_text()
    assert "WARNING: in seeds 4 the arms had different initial models" in text
    assert "In seeds 2 the arms' rewards differ in the first step" in text


def test_runs_of_different_lengths_are_refused(results):
    save(results, "ep_grpo", 0, steps=9)
    with pytest.raises(ValueError, match="easy: ep_grpo/seed0 cannot be compared .* steps: 8 is now 9"):
        write_report(results, results)


def test_runs_with_other_settings_than_the_rest_of_the_task_are_refused(results):
    save(results, "ep_grpo-no_gate", 4, batch=16)
    with pytest.raises(ValueError, match="no_gate/seed4 cannot be compared .* batch=8 is now batch=16"):
        write_report(results, results)


def test_without_a_pair_there_is_nothing_to_report(tmp_path):
    save(tmp_path, "grpo", 0)
    done = CliRunner().invoke(app, ["report", "--results", str(tmp_path)])
    assert done.exit_code == 2
    assert "no finished run" in done.output


def test_one_seed_gives_a_table_without_an_interval(tmp_path):
    for arm in GAIN:
        save(tmp_path, arm, 0)
    write_report(tmp_path, tmp_path)
    rows = [line for line in (tmp_path / "learning.md").read_text().splitlines() if line.startswith("| ep_grpo |")]
    assert "+0.143: too few seeds | 1.000" in rows[0]
    assert "[" not in "".join(rows)


@pytest.mark.parametrize(
    ("lost", "words"),
    [
        (REWARD, "critic/score/mean was logged for 1 of 2 steps"),
        (STEP_SECONDS, "timing_s/step was logged for 1 of 2 steps"),
        ("timing_s/adv", "timing_s/adv was logged for 1 of 2 steps"),
        ("val-core/sums/acc/mean@2", "test problems was not logged after step 2"),
        (None, ""),
    ],
)
def test_a_run_is_whole_only_with_what_the_tables_need(tmp_path, lost, words):
    names = (REWARD, STEP_SECONDS, "timing_s/adv", "val-core/sums/acc/mean@2")
    (tmp_path / "rollouts").mkdir()
    with (tmp_path / "metrics.jsonl").open("w") as log:
        for step in (1, 2):
            data = {name: math.nan if (name, step) == (lost, 2) else 0.5 for name in names}
            if math.isnan(data[names[-1]]):
                del data[names[-1]]
            print(json.dumps({"step": step, "data": data}), file=log)
            (tmp_path / "rollouts" / f"{step}.jsonl").write_text('{"uid": "a_0_0", "score": 1.0}\n')
    if lost is None:
        assert compact(tmp_path, 2)[HELD_OUT] == {1: 0.5, 2: 0.5}
        return
    with pytest.raises(ValueError, match=words):
        compact(tmp_path, 2)


def test_group_shares_by_hand():
    shares = group_shares({"a": [0, 0], "b": [1, 1], "c": [0, 1], "d": [0, 0], "e": [1.0, 1.0 - 1e-7]})
    assert shares == {ZERO_VARIANCE: 0.8, ALL_WRONG: 0.4, ALL_RIGHT: 0.4}


@pytest.mark.parametrize("name", ["val-core/chained_sums/acc/mean@2", "val-core/word_problems/acc/mean@1"])
def test_the_held_out_accuracy_is_found_under_verls_name(name):
    steps = {0: {name: 0.25, "val-aux/chained_sums/score/mean@2": 9.0}, 1: {REWARD: 0.5}, 10: {name: 0.75, REWARD: 1}}
    assert select(Metrics(steps)) == {REWARD: {1: 0.5, 10: 1.0}, HELD_OUT: {0: 0.25, 10: 0.75}}


def test_series_survive_being_written():
    series = {"a/b": {1: 0.123456789, 2: 1e-9}, HELD_OUT: {0: 1.0, 10: 0.5}}
    back = load(dump(series))
    assert back == {"a/b": {1: 0.12346, 2: 1e-9}, HELD_OUT: {0: 1.0, 10: 0.5}}
    with pytest.raises(ValueError, match="finite"):
        load(dump({"a": {1: math.nan}}))


def test_differences_of_settings_name_what_changed():
    before = {"steps": 3, "train": ["a=1", "b=2"], "seed": 0}
    assert changed_settings(before, dict(before)) == []
    assert changed_settings(before, {"steps": 4, "train": ["a=1", "c=2"], "seed": 0}) == [
        "steps: 3 is now 4",
        "train: b=2 is now c=2",
    ]
