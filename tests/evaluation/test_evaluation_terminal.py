# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Progress with the time left, and errors as messages."""

from __future__ import annotations

import io
import re

import pytest
import typer
from rich.console import Console

from epgrpo_verl.evaluation import terminal
from epgrpo_verl.evaluation.errors import EvaluationError


@pytest.fixture
def clock(monkeypatch):
    """A clock that is put forward by hand, in seconds."""
    now = [0.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    return now


def test_a_log_file_gets_a_line_a_minute_with_the_time_left(clock):
    console = Console(file=io.StringIO(), width=80)
    with terminal.progress_bar(console, "samples") as start:
        advance = start(100, 200)
        for _ in range(50):
            clock[0] += 3
            advance(1)
    lines = console.file.getvalue().splitlines()
    assert lines == [
        "samples: 100 of 200 are there",
        "samples: 120 of 200, 0:04:00 left",
        "samples: 140 of 200, 0:03:00 left",
    ]


def test_a_terminal_gets_a_bar():
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    with terminal.progress_bar(console, "samples") as start:
        advance = start(10, 20)
        advance(10)
    shown = console.file.getvalue()
    assert "samples" in shown and "20/20" in shown and re.search(r"left\s+0:00:00", shown)


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (EvaluationError("give --out"), 1, "epgrpo x: give --out"),
        (PermissionError(13, "Permission denied", "/out"), 1, "PermissionError: [Errno 13] Permission denied: '/out'"),
        (KeyboardInterrupt(), 130, "the same command goes on from there"),
    ],
)
def test_errors_are_one_message_and_a_code(error, code, text):
    console = Console(file=io.StringIO(), width=20)
    with pytest.raises(typer.Exit) as exit_, terminal.messages(console, "epgrpo x"):
        raise error
    assert exit_.value.exit_code == code
    assert text in console.file.getvalue() and console.file.getvalue().count("\n") == 1


def test_a_fault_of_the_program_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError), terminal.messages(Console(), "epgrpo x"):
        raise ZeroDivisionError
