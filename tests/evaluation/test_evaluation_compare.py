# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""``epgrpo compare``, and reading verl's validation dumps, which verl's own code writes here."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evaluation_assets import compare, evaluate, one_line, stored
from matplotlib.image import imread

from epgrpo_verl.data import BENCHMARKS
from epgrpo_verl.evaluation import load_run, summarize
from epgrpo_verl.evaluation.compare import differences, pair
from epgrpo_verl.evaluation.outcome import Answers, Outcome
from epgrpo_verl.evaluation.runs import Run
from epgrpo_verl.evaluation.store import PROBLEMS, SAMPLES, SETTINGS
from epgrpo_verl.evaluation.summary import SEED, as_json


def verl_dump(folder: Path, run: Path, version: int, extras: dict[str, list[Any]] | None = None) -> Path:
    """Write the samples of a run as verl's trainer of a version dumps its validation, with that trainer's code."""
    prompts = {(row["set"], row["id"]): row for row in map(json.loads, (run / PROBLEMS).read_text().splitlines())}
    keys = sorted(stored(run))
    samples = [stored(run)[key] for key in keys]
    rows = [prompts[key[:2]] for key in keys]
    columns: dict[str, list[Any]] = {
        "reward": [sample["score"] for sample in samples],
        "acc": [np.float64(sample["score"]) for sample in samples],
        "pred": [sample["pred"] for sample in samples],
        "reason": ["number" for _ in samples],
        "grader_error": [0.0 for _ in samples],
        "graded_data_source": [key[0] for key in keys],
        **(extras or {}),
    }
    names = {key: f"a_b-{number}" for number, key in enumerate(prompts)}
    if version == 1:
        columns["uid"] = [f"{names[key[:2]]}_{key[2]}_0" for key in keys]
    columns = {name: values for name, values in columns.items() if values}
    writer = _writer(version)
    writer(
        [row["prompt"] for row in rows],
        [sample["response"] for sample in samples],
        [row["ground_truth"] for row in rows],
        [sample["score"] for sample in samples],
        columns,
        str(folder),
        30,
    )
    return folder / "30.jsonl"


def _writer(version: int):
    if version == 1:
        from verl.trainer.ppo.v1.trainer_base import PPOTrainer as trainer
    else:
        from verl.trainer.ppo.ray_trainer import RayPPOTrainer as trainer
    return trainer._write_generations


def numbers(path: Path) -> dict[str, Any]:
    """Accuracy and pass@k by set."""
    summary = as_json(summarize(load_run(path)))
    return {name: {key: part[key] for key in ("avg@n", "pass@k")} for name, part in summary["sets"].items()}


@pytest.mark.parametrize("version", [0, 1])
def test_a_dump_of_verl_gives_the_numbers_of_the_run_it_is_of(finished, tmp_path, version):
    dump = verl_dump(tmp_path / "validation", finished, version)
    assert numbers(dump) == numbers(finished)
    result = evaluate("--dump", dump, "--out", tmp_path / "out", "-k", 2)
    assert result.exit_code == 0, result.output
    text = one_line(result.stdout)
    assert "validation/30: right answers" in text and "training step 30" in text
    assert "neither token counts nor finish reasons" in text
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["sets"]["sums"]["truncated"] is None and summary["sets"]["sums"]["tokens"] is None
    assert summary["sets"]["sums"]["no_box"] == 1.0


@pytest.mark.parametrize("version", [0, 1])
def test_a_dump_is_paired_with_a_run_by_prompt(finished, tmp_path, version):
    dump = load_run(verl_dump(tmp_path, finished, version))
    found = differences(dump, load_run(finished))
    assert set(found) == {"sums", "more", "average"}
    assert all(difference.avg == (0.0, 0.0, 0.0) for difference in found.values())


def test_only_the_last_turn_of_a_conversation_counts(finished, tmp_path):
    dump = verl_dump(tmp_path, finished, 1)
    rows = [json.loads(line) for line in dump.read_text().splitlines()]
    earlier = [row | {"uid": row["uid"][:-1] + "0", "output": "let me see"} for row in rows]
    later = [row | {"uid": row["uid"][:-1] + "1"} for row in rows]
    mixed = [row for both in zip(later, earlier, strict=True) for row in both]
    dump.write_text("".join(json.dumps(row) + "\n" for row in mixed))
    assert numbers(dump) == numbers(finished)


def test_a_dump_without_set_names_is_one_set(finished, tmp_path):
    dump = verl_dump(tmp_path, finished, 0, {"graded_data_source": []})
    run = load_run(dump)
    assert list(run.sets) == ["validation"] and len(run.sets["validation"]) == 10
    assert any("do not name their set" in note for note in run.notes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: [], "has no samples"),
        (lambda rows: [{"input": "x"}], "line 1: no output, gts, score"),
        (lambda rows: rows[:-1], "1 do not have the 4 samples"),
        (lambda rows: [row | {"score": -1.0, "acc": None} for row in rows], "gave the score -1.0"),
    ],
)
def test_files_that_are_no_dump_are_refused(finished, tmp_path, change, message):
    dump = verl_dump(tmp_path, finished, 1)
    rows = [json.loads(line) for line in dump.read_text().splitlines()]
    dump.write_text("".join(json.dumps(row) + "\n" for row in change(rows)))
    result = evaluate("--dump", dump)
    assert result.exit_code == 1
    assert message in one_line(result.stderr)


def made_up(name: str, right: dict[str, list[int]], n: int = 8, ids: bool = True) -> Run:
    """A run with so many right samples per problem."""
    sets = {}
    for set_name, counts in right.items():
        answers = []
        for number, count in enumerate(counts):
            outcomes = tuple(Outcome(sample < count, False, True, False, 10) for sample in range(n))
            answers.append(Answers(f"p{number}" if ids else None, f"{set_name}{number}", outcomes))
        sets[set_name] = answers
    return Run(name, sets)


def test_a_difference_is_that_of_the_means_and_narrower_than_unpaired():
    rng = np.random.default_rng(0)
    hard = rng.integers(0, 7, size=60)
    better = np.minimum(hard + rng.integers(0, 2, size=60), 8)
    baseline, run = made_up("a", {"s": hard.tolist()}), made_up("b", {"s": better.tolist()})
    found = differences(run, baseline)["s"]
    assert found.avg.value == pytest.approx((better.mean() - hard.mean()) / 8)
    assert found.avg.low > 0
    alone = summarize(run).sets["s"].avg
    assert found.avg.high - found.avg.low < (alone.high - alone.low) / 2
    draws = np.random.default_rng(9).integers(60, size=(20_000, 60))
    by_hand = np.quantile(((better - hard) / 8)[draws].mean(axis=1), [0.025, 0.975])
    assert (found.avg.low, found.avg.high) == pytest.approx(tuple(by_hand), abs=0.005)
    assert len(found.passes) == 8 and found.passes[0].value == pytest.approx(found.avg.value)
    assert SEED == 0


def test_runs_with_another_number_of_samples_are_compared_up_to_the_fewest():
    found = differences(made_up("a", {"s": [1, 2]}, n=8), made_up("b", {"s": [1, 2]}, n=4))["s"]
    assert len(found.passes) == 4 and found.at(5) is None
    assert found.avg.value == pytest.approx((3 / 8 - 3 / 4) / 2)


def test_no_difference_without_the_same_problems():
    few, many = made_up("a", {"s": [1, 2]}), made_up("b", {"s": [1, 2, 3], "t": [1]})
    found = differences(many, few)
    assert found["s"].why_not == "not the same problems (2 in common of 3 and 2)"
    assert found["t"].why_not == "not in the baseline"
    assert found["average"].avg is None and found["average"].why_not
    left = made_up("a", {"s": [1, 2]}).sets["s"]
    by_digest = pair(left, made_up("b", {"s": [1, 2]}, ids=False).sets["s"])
    assert [b.digest for _, b in by_digest] == ["s0", "s1"]
    twice = pair(left, [*left, left[0]])
    assert twice == "a problem is there twice"


@pytest.fixture
def two_runs(finished, tmp_path) -> tuple[Path, Path]:
    """The finished run under the names of the paper's sets, and the same with every second wrong answer made right."""
    paths = tmp_path / "base", tmp_path / "trained"
    for path in paths:
        shutil.copytree(finished, path)
        settings = json.loads((path / SETTINGS).read_text())
        settings["sets"] = {name: settings["sets"]["sums"] for name in BENCHMARKS}
        (path / SETTINGS).write_text(json.dumps(settings))
        for file in (SAMPLES, PROBLEMS):
            lines = [json.loads(line) for line in (path / file).read_text().splitlines()]
            rows = [row | {"set": name} for name in BENCHMARKS for row in lines if row["set"] == "sums"]
            if path.name == "trained" and file == SAMPLES:
                for row in rows[::2]:
                    row["score"] = 1.0
            (path / file).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return paths


def test_runs_and_the_papers_figures_stand_side_by_side(two_runs, tmp_path):
    result = compare(
        *two_runs, "--paper", "3b", "--plot", tmp_path / "new" / "plot.png", "--json", tmp_path / "all.json"
    )
    assert result.exit_code == 0, result.output
    text = one_line(result.stdout)
    for figure in ("18.14", "22.93", "39.53", "9.69", "38.20", "(paper)", "not measured here"):
        assert figure in text
    assert "minus base" in text and "not available" in text, "pass@16 of the paper, where the runs have 4 samples"
    report = json.loads((tmp_path / "all.json").read_text())
    for name in (*BENCHMARKS, "average"):
        base, trained = (run["average"] if name == "average" else run["sets"][name] for run in report["runs"])
        gap = report["differences"]["trained"][name]["avg@n"]
        assert gap["value"] == pytest.approx(trained["avg@n"]["value"] - base["avg@n"]["value"])
        assert f"{100 * gap['value']:+.2f}" in result.stdout
    assert "not measured here" in report["paper"]["source"]
    picture = imread(tmp_path / "new" / "plot.png")
    colours = [(0x1F, 0x77, 0xB4), (0xFF, 0x7F, 0x0E), (0x2C, 0xA0, 0x2C), (0xD6, 0x27, 0x28)]
    for colour in colours:  # two curves, and two marks of the paper in the panel of AIME25
        near = abs(picture[..., :3] - np.array(colour) / 255).max(axis=-1) < 0.02
        assert near.sum() > 10


def test_the_papers_average_needs_its_five_sets(finished):
    result = compare(finished, "--paper", "7b")
    assert result.exit_code == 0, result.output
    assert "27.11" not in result.stdout
    assert "the paper's average is over five sets" in one_line(result.stdout)


def test_a_run_can_be_named_and_names_must_differ(finished, tmp_path):
    result = compare(f"one={finished}", f"two={finished}")
    assert result.exit_code == 0, result.output
    assert "minus one" in result.stdout and "+0.00" in result.stdout
    twice = compare(finished, finished)
    assert twice.exit_code == 1 and "two runs are called 'finished': give NAME=PATH" in one_line(twice.stderr)


def test_what_is_no_run_is_refused(finished, tmp_path):
    dump = verl_dump(tmp_path / "dumps", finished, 1)
    shutil.copy(dump, dump.with_name("100.jsonl"))
    unfinished = shutil.copytree(finished, tmp_path / "unfinished")
    lines = (unfinished / SAMPLES).read_text().splitlines(keepends=True)
    (unfinished / SAMPLES).write_text("".join(lines[:30]))
    killed_early = shutil.copytree(finished, tmp_path / "killed_early")
    problems = (killed_early / PROBLEMS).read_text().splitlines(keepends=True)
    (killed_early / PROBLEMS).write_text("".join(line for line in problems if '"sums"' in line))
    for path, message in [
        (tmp_path, "is no run of epgrpo evaluate"),
        (tmp_path / "nowhere", "there is no"),
        (tmp_path / "dumps", "name one file of 30.jsonl, 100.jsonl"),
        (unfinished, "10 of 40 samples are missing"),
        (killed_early, "is not complete"),
    ]:
        result = compare(path)
        assert result.exit_code == 1
        assert message in one_line(result.stderr)
    for arguments, message in [
        (("-k", 9), "pass@9 is not available: no run has more than 4"),
        (("--plot", tmp_path / "x.gif"), "has to end in one of .png, .svg, .pdf"),
    ]:
        result = compare(finished, *arguments)
        assert result.exit_code == 1
        assert message in one_line(result.stderr)
