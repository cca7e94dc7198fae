# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Reading runs from each of verl's loggers."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from epgrpo_verl.view.logs import load_run, parse_console
from epgrpo_verl.view.metrics import REWARD, Metrics

DATA = Path(__file__).parent / "data"


@pytest.mark.parametrize("name", ["ep_grpo", "grpo"])
def test_the_console_output_of_a_real_run_says_what_its_file_says(name):
    """The same run by both loggers: the console's lines with Ray's prefixes, among everything else that was printed."""
    file, console = load_run(DATA / f"{name}.jsonl"), load_run(DATA / f"{name}.log")
    assert (file.kind, console.kind) == ("file", "console")
    assert_same(console.metrics, file.metrics, rel=1e-12)


def test_verls_three_loggers_are_read_alike(tmp_path, monkeypatch, capsys):
    """verl's own Tracking, given the values of a real run."""
    from verl.utils.tracking import Tracking

    monkeypatch.setenv("VERL_FILE_LOGGER_PATH", str(tmp_path / "metrics.jsonl"))
    monkeypatch.setenv("TENSORBOARD_DIR", str(tmp_path / "events"))
    records = [json.loads(line) for line in (DATA / "ep_grpo.jsonl").read_text().splitlines()]
    tracking = Tracking("project", "run", default_backend=["console", "file", "tensorboard"])
    for record in records:
        tracking.log(record["data"], step=record["step"])
    tracking.finish()
    printed = tmp_path / "printed.log"
    printed.write_text(capsys.readouterr().out)
    file, console, events = (load_run(tmp_path / name) for name in ("metrics.jsonl", "printed.log", "events"))
    assert (file.kind, console.kind, events.kind) == ("file", "console", "tensorboard")
    assert [*file.metrics.steps] == [record["step"] for record in records]
    assert_same(console.metrics, file.metrics, rel=1e-12)
    assert_same(events.metrics, file.metrics, rel=1e-6)  # float32
    assert load_run(next((tmp_path / "events").iterdir())).metrics.steps == events.metrics.steps
    assert load_run(tmp_path).kind == "file"


def assert_same(metrics: Metrics, expected: Metrics, rel: float) -> None:
    names = {name for values in expected.steps.values() for name in values}
    assert len(names) > 50
    for name in names:
        steps, values = expected.series(name)
        assert metrics.series(name) == (steps, pytest.approx(values, rel=rel, abs=1e-30)), name


def test_the_forms_of_numbers_on_the_console():
    text = (
        "\x1b[36m(TaskRunnerV1 pid=4673)\x1b[0m step:3 - a/b:np.float64(-4.6e-08) - c:7 - d:0.5 - e:inf - f:nan - "
        "g:1e-06 - h:array([1]) - i:np.int64(12) - val-core/x/acc/mean@1:0.25 [repeated 2x across cluster]\n"
    )
    metrics = parse_console(text)
    assert metrics.steps.keys() == {3}
    assert metrics.series("a/b") == ([3], [-4.6e-08])
    assert [metrics.series(name)[1] for name in "cdgi"] == [[7.0], [0.5], [1e-06], [12.0]]
    assert metrics.series("e") == metrics.series("f") == metrics.series("h") == ([], [])
    assert metrics.series("val-core/x/acc/mean@1") == ([3], [0.25])


def test_a_progress_bar_on_the_same_line_does_no_harm():
    assert parse_console("Training Progress:  3%|x | 1/30\rstep:1 - a:2\n").steps == {1: {"a": 2.0}}


def test_other_lines_with_steps_are_no_metrics():
    assert parse_console("step:1\nglobal step:2 - done\nstep:three - a:1\nstep:4 - a:b\n").steps == {}


def test_a_resumed_console_log_replaces_what_it_repeats():
    text = "step:1 - a:1\nstep:2 - a:2\nstep:3 - a:3\nrestarted\nstep:2 - a:20\nstep:2 - b:5\n"
    assert parse_console(text).steps == {1: {"a": 1.0}, 2: {"a": 20.0, "b": 5.0}}


def test_later_event_files_replace_what_they_repeat(tmp_path):
    from torch.utils.tensorboard import SummaryWriter

    for values in ({1: 0.0, 2: 0.25}, {2: 0.5, 3: 0.75}):
        with SummaryWriter(tmp_path, filename_suffix=f".{values[2]}") as writer:
            for step, value in values.items():
                writer.add_scalar(REWARD, value, step)
    assert load_run(tmp_path).metrics.series(REWARD) == ([1, 2, 3], [0.0, 0.5, 0.75])


def test_event_files_without_tensorboard_are_refused_with_what_to_install(tmp_path, monkeypatch):
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar(REWARD, 0.5, 1)
    for name in [name for name in sys.modules if name.split(".")[0] == "tensorboard"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ModuleNotFoundError, match="pip install tensorboard"):
        load_run(tmp_path)


def test_a_folder_gives_its_one_run(tmp_path):
    shutil.copy(DATA / "grpo.log", tmp_path / "train.log")
    (tmp_path / "notes.txt").write_text("nothing of verl\n")
    (tmp_path / "samples.jsonl").write_text('{"input": "1+1", "output": "2"}\n')
    assert load_run(tmp_path).kind == "console"
    shutil.copy(DATA / "grpo.jsonl", tmp_path / "my_experiment.jsonl")
    assert load_run(tmp_path).kind == "file"


def test_a_folder_of_several_runs_lists_them(tmp_path):
    shutil.copy(DATA / "grpo.log", tmp_path / "one.log")
    shutil.copy(DATA / "ep_grpo.log", tmp_path / "two.log")
    with pytest.raises(ValueError, match=r"several runs; name one: .*one\.log, .*two\.log"):
        load_run(tmp_path)
    shutil.copy(DATA / "grpo.jsonl", tmp_path / "one.jsonl")
    shutil.copy(DATA / "ep_grpo.jsonl", tmp_path / "two.jsonl")
    with pytest.raises(ValueError, match=r"several runs; name one: .*one\.jsonl, .*two\.jsonl"):
        load_run(tmp_path)


def test_a_folder_without_a_log_says_how_to_get_one(tmp_path):
    (tmp_path / "samples.jsonl").write_text('{"input": "1+1", "output": "2"}\n')
    with pytest.raises(FileNotFoundError, match="trainer.logger"):
        load_run(tmp_path)
