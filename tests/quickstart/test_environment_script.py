# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What scripts/environment.sh shows in a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_in_terminal(script: str, log: Path) -> tuple[int, str]:
    """Run a bash script with environment.sh sourced; its exit code, and what it writes to a terminal."""
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            ["bash", "-c", f"source scripts/environment.sh; {script}"],
            cwd=ROOT,
            env={**os.environ, "ENV_LOG": str(log)},
            stdout=theirs,
            stderr=subprocess.STDOUT,
        )
    finally:
        os.close(theirs)
    written = b""
    try:
        while part := os.read(ours, 1024):
            written += part
    except OSError:  # a terminal that nobody else has open
        pass
    finally:
        os.close(ours)
    return process.wait(60), written.decode()


def screen(written: str) -> list[str]:
    """The lines that a terminal shows in the end: carriage returns overwrite, ESC [ K clears to the end of the line."""
    lines = []
    for line in written.replace("\r\n", "\n").split("\n"):
        cells: list[str] = []
        column = 0
        for part in re.findall(r"\x1b\[K|\r|.", line):
            if part == "\x1b[K":
                del cells[column:]
            elif part == "\r":
                column = 0
            else:
                cells[column : column + 1] = [part]
                column += 1
        lines.append("".join(cells))
    return lines


def test_a_finished_step_leaves_nothing_of_its_progress(tmp_path):
    code, written = run_in_terminal('_step "make it" sleep 0.5', tmp_path / "log")
    assert code == 0
    assert "make it ... 0s" in written
    assert re.fullmatch(r"  make it: \ds", screen(written)[0])


def test_a_step_that_fails_shows_the_end_of_its_log(tmp_path):
    code, written = run_in_terminal('_step "make it" sh -c "echo no room; exit 3"', tmp_path / "log")
    assert code == 1
    assert "no room" in screen(written)
    assert f"'make it' failed; the whole log is {tmp_path / 'log'}" in written
