# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Reading, summing up and drawing what verl logged. ``data/quickstart_run.jsonl`` is the log of a real run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from matplotlib.image import imread
from typer.testing import CliRunner

from epgrpo_verl.quickstart.__main__ import app
from epgrpo_verl.quickstart.summary import summarize
from epgrpo_verl.view.curves import PANELS, load_metrics, plot_curves, running_mean
from epgrpo_verl.view.metrics import RECOVERED_TOKENS, REWARD, STEP_SECONDS, ZERO_VARIANCE, parse_lines

RUN = Path(__file__).parent / "data" / "quickstart_run.jsonl"


def write(path: Path, steps: range, reward: float, **more: float) -> None:
    records = ({"step": step, "data": {REWARD: reward, STEP_SECONDS: 1.0, **more}} for step in steps)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def test_a_real_run_has_every_panel():
    metrics = load_metrics(RUN)
    for panel in PANELS:
        steps, values = metrics.series(panel.metric)
        assert len(steps) == len(metrics.steps), panel.metric
        assert steps == sorted(steps)
        assert len(values) == len(steps)


def test_the_summary_of_a_real_run_is_what_its_lines_say():
    records = [json.loads(line) for line in RUN.read_text().splitlines()]
    rewards = [record["data"][REWARD] for record in records]
    summary = summarize(load_metrics(RUN))
    assert summary.steps == len(records)
    assert summary.window == 5
    assert summary.reward_first == pytest.approx(sum(rewards[:5]) / 5)
    assert summary.reward_last == pytest.approx(sum(rewards[-5:]) / 5)
    recovered = [record["data"][RECOVERED_TOKENS] for record in records]
    assert summary.recovered_tokens == pytest.approx(sum(recovered) / len(recovered))
    zero_variance = [record["data"][ZERO_VARIANCE] for record in records]
    assert summary.zero_variance_last == pytest.approx(sum(zero_variance[-5:]) / 5)


def test_a_run_without_ep_grpo_has_no_shares(tmp_path):
    write(tmp_path / "metrics.jsonl", range(1, 4), 0.5)
    summary = summarize(load_metrics(tmp_path))
    assert (summary.zero_variance_first, summary.recovered_tokens) == (None, None)
    assert summary.window == 1


def test_a_resumed_run_replaces_the_steps_it_repeats(tmp_path):
    write(tmp_path / "metrics-000.jsonl", range(1, 8), 0.0)
    write(tmp_path / "metrics-001.jsonl", range(5, 7), 1.0)
    steps, rewards = load_metrics(tmp_path).series(REWARD)
    assert steps == [1, 2, 3, 4, 5, 6]
    assert rewards == [0, 0, 0, 0, 1, 1]


def test_lines_of_one_step_are_merged_and_a_cut_off_last_line_is_left_out():
    text = '{"step": 1, "data": {"a": 1}}\n{"step": 1, "data": {"b": 2}}\n{"step": 2, "da'
    assert parse_lines(text) == {1: {"a": 1, "b": 2}}


def test_a_file_that_is_no_log_is_refused_with_its_line(tmp_path):
    with pytest.raises(ValueError, match="line 2"):
        parse_lines('{"step": 1, "data": {}}\nhello\n{"step": 2, "data": {}}\n')
    with pytest.raises(FileNotFoundError, match="trainer.logger"):
        load_metrics(tmp_path)


def test_values_that_are_no_finite_numbers_are_no_points():
    lines = '{"step": 1, "data": {"a": NaN}}\n{"step": 2, "data": {"a": 3}}\n{"step": 3, "data": {"a": null}}\n'
    metrics = load_metrics_from(lines)
    assert metrics.series("a") == ([2], [3.0])


def load_metrics_from(text: str):
    from epgrpo_verl.view.metrics import Metrics

    return Metrics(parse_lines(text))


def test_running_mean_worked_by_hand():
    assert running_mean([3.0, 1.0, 5.0, 0.0], 3) == [3.0, 2.0, 3.0, 2.0]


def test_a_picture_shows_the_run(tmp_path):
    metrics = load_metrics(RUN)
    one = imread(plot_curves({"run": metrics}, tmp_path / "new" / "one.png"))
    two = imread(plot_curves({"run": metrics, "again": metrics}, tmp_path / "two.png"))
    empty = imread(plot_curves({"run": load_metrics_from('{"step": 1, "data": {"x": 1}}\n')}, tmp_path / "empty.png"))
    assert one.shape[0] > 300
    assert one.shape[1] > 900
    blue, orange = (0.0, 0x72 / 255, 0xB2 / 255), (0xD5 / 255, 0x5E / 255, 0.0)
    assert _pixels(one, blue) > 1000 and _pixels(one, orange) == 0
    assert _pixels(two, orange) > 1000
    assert _pixels(empty, blue) == 0


def _pixels(image, colour: tuple[float, float, float]) -> int:
    return int((abs(image[..., :3] - colour).max(axis=-1) < 0.02).sum())


def test_nothing_to_draw_is_said(tmp_path):
    with pytest.raises(ValueError, match="no run"):
        plot_curves({}, tmp_path / "none.png")


def test_the_command_prints_the_summary_and_the_path_of_the_picture(tmp_path):
    shutil.copy(RUN, tmp_path / "metrics.jsonl")
    done = CliRunner().invoke(app, ["summarize", str(tmp_path)])
    assert done.exit_code == 0, done.output
    summary = summarize(load_metrics(RUN))
    assert f"{summary.reward_first:.3f}" in done.output
    assert f"{summary.reward_last:.3f}" in done.output
    assert "Recovered tokens: share of all tokens" in " ".join(done.output.split())
    assert str(tmp_path / "curves.png") in done.output.replace("\n", "")
    assert (tmp_path / "curves.png").stat().st_size > 10_000


def test_what_a_run_does_not_log_is_not_explained(tmp_path):
    write(tmp_path / "metrics.jsonl", range(1, 4), 0.5)
    done = CliRunner().invoke(app, ["summarize", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "not logged" in done.output
    assert "Recovered tokens" not in done.output


def test_the_command_says_what_is_missing(tmp_path):
    done = CliRunner().invoke(app, ["summarize", str(tmp_path)])
    assert done.exit_code == 2
    assert "no metrics" in done.output
