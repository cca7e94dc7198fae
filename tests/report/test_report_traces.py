# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What reports take from token traces, which the package's own writer wrote."""

from __future__ import annotations

import gzip
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure
from trace_batches import make_batch, write_trace
from typer.testing import CliRunner

from epgrpo_verl import EPGRPOConfig, EPGRPOResult
from epgrpo_verl.trace.reader import read_trace_file
from epgrpo_verl.trace.writer import TraceWriter
from epgrpo_verl.view.curves import draw
from epgrpo_verl.view.report import HTML, PNG, app
from epgrpo_verl.view.report_data import make_report
from epgrpo_verl.view.seeds import over_seeds
from epgrpo_verl.view.traces import FEWEST, STAGES, TRACE_PANELS, load_trace, trace_folder

DATA = Path(__file__).parent / "data"
EP_GRPO, GRPO = DATA / "ep_grpo.jsonl", DATA / "grpo.jsonl"
STRONG = EPGRPOConfig(eta=2.0)
"""A progress term that is large enough to turn signs."""
BY_TITLE = {panel.title: panel for panel in TRACE_PANELS}


@pytest.fixture
def run(tmp_path) -> Path:
    """A folder as the quickstart leaves it: the metrics, and the traces in a folder of it."""
    folder = tmp_path / "mine_seed1"
    folder.mkdir()
    shutil.copy(EP_GRPO, folder / "metrics.jsonl")
    write_trace(folder / "traces", [1, 10, 20], STRONG)
    return folder


def report(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], terminal_width=200)


def tokens(step: int) -> tuple[EPGRPOResult, torch.Tensor, torch.Tensor]:
    """Result of the batch of a step, and which tokens are valid and which of these in zero-variance groups."""
    result = make_batch(seed=step).result(STRONG)
    valid = result.bucket >= 0
    return result, valid, valid & result.zero_variance.unsqueeze(1)


def test_the_curves_over_the_steps_are_those_of_the_batches(run):
    trace = load_trace(trace_folder(run))
    assert trace.path == run / "traces" and trace.steps == (1, 10, 20) and trace.groups == 9 and not trace.damaged
    assert trace.tokens == sum(int(tokens(step)[1].sum()) for step in (1, 10, 20))
    expected = {name: [] for name in ("progress_share", "sign_flips", "recovered_tokens", "zero_variance_weight")}
    for step in (1, 10, 20):
        result, valid, equal = tokens(step)
        outcome, progress = (part.abs()[valid & ~equal].sum() for part in (result.outcome, result.progress))
        expected["progress_share"].append(progress / (progress + outcome))
        plain = result.outcome_advantage.unsqueeze(1).expand_as(result.advantages)
        expected["sign_flips"].append((result.advantages * plain < 0).sum() / (valid & (plain != 0)).sum())
        expected["recovered_tokens"].append((result.advantages[equal] != 0).float().mean())
        expected["zero_variance_weight"].append(result.advantages.abs()[equal].sum() / result.advantages.abs().sum())
    for name, values in expected.items():
        assert trace.series(f"trace/{name}")[0] == [1, 10, 20]
        assert trace.series(f"trace/{name}")[1] == pytest.approx([float(value) for value in values], rel=1e-3), name
        assert 0 < min(values), f"{name}: or the test says nothing"


def test_gate_and_log_ratio_are_those_of_the_last_third(run):
    trace = load_trace(trace_folder(run))
    result, valid, _ = tokens(20)
    gates, ratios = {}, {}
    for row, column in valid.nonzero().tolist():
        entropy = float(f"{make_batch(seed=20).entropy[row, column]:.5g}")
        gates.setdefault(math.floor(5 * math.log10(entropy)), []).append(float(result.gate[row, column]))
        stage = min(int(float(f"{result.progress_coordinate[row, column]:.5g}") * STAGES), STAGES - 1)
        ratios.setdefault(stage, []).append(abs(float(result.log_ratio[row, column])))
    decades, tenths = lambda number: 10 ** ((number + 0.5) / 5), lambda number: (number + 0.5) / STAGES
    for name, groups, middle in (("gate", gates, decades), ("log_ratio_by_stage", ratios, tenths)):
        kept = {number: values for number, values in sorted(groups.items()) if len(values) >= FEWEST}
        assert len(kept) > 4
        places, means = trace.series(f"trace/{name}")
        assert places == pytest.approx([middle(number) for number in kept])
        assert means == pytest.approx([sum(values) / len(values) for values in kept.values()], rel=1e-3)
    entropies, single = trace.series("trace/gate_of_token")
    assert len(single) == len(entropies) == int(valid.sum())


def test_the_parts_of_a_step_are_one(tmp_path):
    once = write_trace(tmp_path / "once", [3], STRONG)
    read = read_trace_file(once / "step_000003.jsonl.gz")
    writer = TraceWriter(tmp_path / "parts", every=1, max_mb=10)
    for number, groups in enumerate((read.groups[:1], read.groups[1:]), start=1):
        writer.write(3, [{**read.header, "part": number}, *groups])
    assert load_trace(tmp_path / "parts").curves == load_trace(once).curves


def test_traces_of_several_seeds_are_one_curve_with_a_band(tmp_path):
    folders = [write_trace(tmp_path / f"a_seed{seed}", steps, STRONG) for seed, steps in ((0, [1, 10]), (1, [10, 20]))]
    made = make_report([], traces=[(None, load_trace(folder)) for folder in folders])
    assert list(made.runs) == ["a"] and made.seeds("a") == 2
    curve = over_seeds(made.runs["a"], BY_TITLE["Sign flips"].metric)
    assert (curve.steps, curve.seeds) == ([10], 2) and curve.low == curve.high  # the same batch in both
    axes = Figure().subplots()
    draw(axes, BY_TITLE["Log-ratio by stage"], made.runs)
    assert len(axes.collections) == 1, "no band"
    assert axes.get_ylim()[0] == 0


def test_a_run_with_a_trace_and_one_without(run, tmp_path):
    done = report(run, f"plain={GRPO}", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    page = (tmp_path / "out" / HTML).read_text(encoding="utf-8")
    for said in ("token traces of mine: 3 steps (1 to 20), 9 groups", "no token traces found of plain"):
        assert said in done.output and said[1:] in page
    for title in BY_TITLE:
        assert f"<h3>{title} <small>" in page
        assert f"{title}: no" not in done.output
    assert f"{run / 'traces'}</code> (token traces, 3 steps)" in page
    alone = report(GRPO, "--out", tmp_path / "alone")
    assert "no token traces found of grpo: a run with algorithm.adv_estimator=ep_grpo writes them" in alone.output
    assert not any(title in (tmp_path / "alone" / HTML).read_text() for title in BY_TITLE)


def test_a_trace_from_another_place_joins_its_run_and_one_given_twice_counts_once(run, tmp_path):
    elsewhere = write_trace(tmp_path / "elsewhere", [1, 10], STRONG)
    done = report(f"mine={EP_GRPO}", f"mine={elsewhere}", run, run / "traces", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert done.output.count("\ntoken traces of mine") == 2
    assert "mine (2 seeds)" not in done.output and "no token traces" not in done.output


def test_a_trace_alone_is_enough(tmp_path):
    folder = write_trace(tmp_path / "run_7" / "traces", [1, 10])
    for given in (folder, folder / "step_000010.jsonl.gz"):
        done = report(given, "--out", tmp_path / "out")
        assert done.exit_code == 0, done.output
        assert "token traces of run_7" in done.output and "not logged" not in done.output
        assert "<table>" not in (tmp_path / "out" / HTML).read_text()
        assert (tmp_path / "out" / PNG).stat().st_size > 10_000


def damage(folder: Path) -> dict[str, str]:
    """Breaks all files of a trace but the first, each in another way; gives what has to be said of each."""
    cut, garbage, newer = (folder / f"step_{step:06d}.jsonl.gz" for step in (10, 20, 30))
    cut.write_bytes(cut.read_bytes()[:-200])
    garbage.write_bytes(b"no gzip")
    header, *rest = gzip.decompress(newer.read_bytes()).decode().split("\n", 1)
    newer.write_bytes(gzip.compress("\n".join([json.dumps({**json.loads(header), "version": 9}), *rest]).encode()))
    return {cut.name: "not a trace, or a damaged one", garbage.name: "damaged", newer.name: "a trace of version 9"}


def test_damaged_files_are_named_and_cost_nothing_of_the_rest(run, tmp_path):
    write_trace(run / "traces", [1, 10, 20, 30])
    said = damage(run / "traces")
    done = report(run, GRPO, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    page = (tmp_path / "out" / HTML).read_text(encoding="utf-8")
    for name, words in said.items():
        line = next(line for line in done.output.splitlines() if name in line)
        assert line.startswith("left out: ") and words in line
        assert name in page and words in page
    assert "token traces of mine: 1 step, 3 groups" in done.output
    whole = load_trace(run / "traces" / "step_000001.jsonl.gz")
    assert load_trace(run / "traces").curves == whole.curves and whole.series("trace/gate")[0]
    assert "<h3>Mean reward</h3>" in page and "<h3>Sign flips <small>" in page


def test_where_every_file_is_damaged_the_log_is_shown_and_without_one_it_is_said(run, tmp_path):
    for file in (run / "traces").iterdir():
        file.write_bytes(file.read_bytes()[:50])
    done = report(run, "--out", tmp_path / "out")
    assert done.exit_code == 0 and done.output.count("left out: ") == 3, done.output
    assert "<h3>Mean reward</h3>" in (tmp_path / "out" / HTML).read_text()
    done = report(run / "traces", "--out", tmp_path / "none")
    assert done.exit_code == 1 and "nothing to show: no token in the traces" in done.output
    assert "step_000010.jsonl.gz" in done.output and not (tmp_path / "none").exists()


def test_traces_beyond_the_end_of_the_log_are_said(run, tmp_path):
    said = "the token traces of mine go on to step 20, its log ends at step 5"
    assert said in report(run, "--out", tmp_path / "out").output
    assert said[1:] in (tmp_path / "out" / HTML).read_text()
    for step in (10, 20):
        (run / "traces" / f"step_{step:06d}.jsonl.gz").unlink()
    write_trace(run / "traces", [6])  # the step under way
    assert "go on to step" not in report(run, "--out", tmp_path / "out").output


def test_a_quantity_that_was_not_computed_leaves_out_its_panel(run, tmp_path):
    file = run / "traces" / "step_000020.jsonl.gz"
    header, *groups = map(json.loads, gzip.decompress(file.read_bytes()).decode().splitlines())
    for response in (response for group in groups for response in group["responses"]):
        response["log_ratio"] = None
    file.write_bytes(gzip.compress("".join(json.dumps(record) + "\n" for record in (header, *groups)).encode()))
    other = write_trace(tmp_path / "other", [1])
    done = report(run, other, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "Log-ratio by stage: no such token in the traces of mine" in done.output
    assert "No such token in the traces of mine." in (tmp_path / "out" / HTML).read_text()
    assert load_trace(run / "traces").series("trace/gate")[0]


def test_several_traces_in_a_folder_are_an_error_that_says_what_to_do(run, tmp_path):
    write_trace(run / "older", [1])
    done = report(run, "--out", tmp_path / "out")
    assert done.exit_code == 1
    for words in ("holds several traces", str(run / "older"), str(run / "traces"), "NAME=PATH"):
        assert words in done.output
    done = report(f"a={run / 'metrics.jsonl'}", f"a={run / 'older'}", "--out", tmp_path / "out")
    assert done.exit_code == 0 and "token traces of a: 1 step" in done.output


def test_it_needs_neither_torch_nor_verl(run, tmp_path):
    code = (
        "import sys; sys.modules['torch'] = sys.modules['verl'] = None\n"
        "from epgrpo_verl.cli import app; app(['report', *sys.argv[1:]])"
    )
    arguments = [sys.executable, "-c", code, str(run), "--out", str(tmp_path / "out")]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
