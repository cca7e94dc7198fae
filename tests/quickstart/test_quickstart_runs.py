# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The quickstart's script on verl's real stack: a run that is interrupted, and the one that goes on from it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from epgrpo_verl.view.curves import load_metrics
from epgrpo_verl.view.metrics import RECOVERED_TOKENS, REWARD

pytestmark = [pytest.mark.slow, pytest.mark.nightly]
ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 500


def start(folder: Path, output: Path, **knobs: str) -> subprocess.Popen:
    with output.open("w") as file:
        return subprocess.Popen(
            ["bash", str(ROOT / "recipes/run_cpu_quickstart.sh"), "actor_rollout_ref.rollout.n=4"],
            env={
                **os.environ,
                "ENV_PYTHON": sys.executable,
                "OUT": str(folder / "run"),
                "DATA_DIR": str(folder / "data"),
                "SAVE_FREQ": "2",
                "COLUMNS": "200",
                **knobs,
            },
            stdout=file,
            stderr=subprocess.STDOUT,
        )


def wait_for(text: str, process: subprocess.Popen, output: Path) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while text not in output.read_text():
        assert process.poll() is None, output.read_text()
        assert time.monotonic() < deadline, output.read_text()
        time.sleep(0.2)


@pytest.fixture(scope="module")
def outputs(tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("runs")
    first, second = folder / "first.txt", folder / "second.txt"
    process = start(folder, first, STEPS="200")
    try:
        wait_for("step 3/200", process, first)
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        interrupted = process.wait(120)
    finally:
        process.kill()
    left = [p for p in family if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
    again = start(folder, second, STEPS="5", RESUME="1")
    try:
        resumed = again.wait(TIMEOUT_S)
    finally:
        again.kill()
    return {
        "folder": folder,
        "first": first.read_text(),
        "second": second.read_text(),
        "codes": (interrupted, resumed),
        "left": left,
    }


def test_ctrl_c_ends_the_run_with_a_message_and_no_processes(outputs):
    assert outputs["codes"][0] == 130
    assert "interrupted" in outputs["first"]
    assert "train.log" in outputs["first"]
    assert outputs["left"] == []


def test_progress_is_shown_step_by_step(outputs):
    assert re.search(
        r"step 2/200  reward \d\.\d+  zero-variance groups \d+%  [\d.]+ s/step  \d+:\d\d left", outputs["first"]
    )


def test_the_resumed_run_goes_on_from_the_checkpoint(outputs):
    assert outputs["codes"][1] == 0, outputs["second"]
    assert "already there" in outputs["second"]
    assert "step 1/5" not in outputs["second"]
    assert "step 5/5" in outputs["second"]
    steps, _ = load_metrics(outputs["folder"] / "run").series(REWARD)
    assert steps == [1, 2, 3, 4, 5]


def test_the_run_ends_with_a_summary_and_a_picture(outputs):
    text = outputs["second"]
    for word in ("mean reward", "zero-variance groups", "recovered tokens", "seconds per step"):
        assert word in text
    picture = outputs["folder"] / "run" / "curves.png"
    assert f"curves: {picture}" in text
    assert picture.stat().st_size > 10_000


def test_ep_grpo_was_at_work(outputs):
    steps, shares = load_metrics(outputs["folder"] / "run").series(RECOVERED_TOKENS)
    assert len(steps) == 5
    assert all(0 <= share <= 1 for share in shares)
