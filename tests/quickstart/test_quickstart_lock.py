# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Two runs with one folder: the second one stops, whatever becomes of the first."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from epgrpo_verl.quickstart.__main__ import app
from epgrpo_verl.quickstart.lock import FolderInUseError, lock_folder

HOLDER = """
import sys, time
from pathlib import Path
from epgrpo_verl.quickstart.lock import lock_folder
lock = lock_folder(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(1000)
"""

# A launcher whose command takes its time to end.
LAUNCHER = """
import sys
from pathlib import Path
from rich.console import Console
from epgrpo_verl.quickstart.lock import lock_folder
from epgrpo_verl.quickstart.training import run_training
out = Path(sys.argv[1])
lock = lock_folder(out)
slow = "import signal, time; signal.signal(15, lambda *_: (time.sleep(3), exit())); print('ready', flush=True)"
slow += "; time.sleep(1000)"
run_training([sys.executable, "-c", slow], out / "metrics.jsonl", out / "log", 1, Console(), hold=[lock.fileno()])
"""


@pytest.fixture
def start():
    started = []

    def start(code: str, folder: Path) -> subprocess.Popen:
        process = subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def wait_until(condition, limit_s: float = 60.0) -> None:
    give_up = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def is_free(folder: Path) -> bool:
    try:
        lock_folder(folder).close()
    except FolderInUseError:
        return False
    return True


def test_a_second_run_stops_and_touches_nothing(start, tmp_path):
    (tmp_path / "metrics-000.jsonl").write_text("precious\n")
    (tmp_path / "checkpoints").mkdir()
    holder = start(HOLDER, tmp_path)
    assert holder.stdout.readline() == "held\n"
    for more in ([], ["--resume"]):
        done = CliRunner().invoke(app, ["train", "--out", str(tmp_path), "--steps", "1", *more])
        assert done.exit_code == 2
        assert f"another run (process {holder.pid}) is writing to {tmp_path}" in done.output
        assert "set OUT to another folder" in done.output
    assert {path.name for path in tmp_path.iterdir()} == {".lock", "metrics-000.jsonl", "checkpoints"}


def test_a_killed_process_holds_nothing(start, tmp_path):
    holder = start(HOLDER, tmp_path)
    holder.stdout.readline()
    assert not is_free(tmp_path)
    holder.kill()
    holder.wait()
    assert is_free(tmp_path)


def test_a_training_that_outlives_its_launcher_holds_the_folder_to_its_end(start, tmp_path):
    launcher = start(LAUNCHER, tmp_path)
    wait_until(lambda: (tmp_path / "log").is_file() and "ready" in (tmp_path / "log").read_text())
    (command,) = psutil.Process(launcher.pid).children()
    os.kill(launcher.pid, signal.SIGKILL)
    launcher.wait()
    assert command.is_running() and not is_free(tmp_path)
    command.wait(60)
    assert is_free(tmp_path)


def test_who_waits_gets_the_folder_when_it_is_free(start, tmp_path):
    holder = start(HOLDER, tmp_path)
    holder.stdout.readline()
    waiting = start(HOLDER.replace("(Path(sys.argv[1]))", "(Path(sys.argv[1]), wait=True)"), tmp_path)
    wait_until(lambda: any(file.path.endswith("/.lock") for file in psutil.Process(waiting.pid).open_files()))
    holder.kill()
    assert waiting.stdout.readline() == "held\n"
    assert (tmp_path / ".lock").read_text() == f"{waiting.pid}\n"
