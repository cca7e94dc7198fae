# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a training as a child process, shows its progress, and keeps its output in a file."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from statistics import median
from types import FrameType

from hydra.core.override_parser.types import Quote, QuotedString
from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from epgrpo_verl.cpu.processes import end_with_parent
from epgrpo_verl.plugin import EPGRPOPluginError
from epgrpo_verl.view.metrics import REWARD, STEP_SECONDS, ZERO_VARIANCE, parse_lines

CHECKPOINTS = "checkpoints"
"""Folder of the checkpoints in that of the run."""
POLL_S = 0.5
"""Seconds between two looks at the metrics."""
SHOWN_LINES = 25
"""Lines of the log that are shown when the run fails."""
STARTING = "starting Ray and verl (half a minute, or minutes on a busy machine)"

_RAY_PREFIX = re.compile(r"\x1b\[[0-9;]*m|^\([A-Za-z_0-9]+ pid=[0-9]+[^)]*\) ")
_NOISE = re.compile(
    r"WARNING|INFO|Training Progress|^step:[0-9]+ - |^\s*$"
    r"|^Error executing job with overrides: |HYDRA_FULL_ERROR|^\[epgrpo_verl\] the trainer ended with exit code"
)
_VERL_REFUSAL = re.compile(r"(?:ValueError|AssertionError): ")
_REFUSAL = re.compile(rf"^(?:\w+\.)*{EPGRPOPluginError.__name__}: ")


def run_overrides(out: Path, steps: int, resume: bool) -> list[str]:
    """Gives the Hydra overrides that decide where a run writes, how long it is, and where it starts.

    Args:
        out: Folder of the run.
        steps: Training steps of the whole run.
        resume: Whether to go on from the last checkpoint in the folder.
    """

    def quoted(path: Path) -> str:
        return QuotedString(str(path), Quote.single).with_quotes()

    return [
        f"trainer.total_training_steps={steps}",
        "trainer.total_epochs=1000000",  # the number of steps ends the run
        'trainer.logger=["console","file"]',
        f"trainer.default_local_dir={quoted(out / CHECKPOINTS)}",
        f"hydra.run.dir={quoted(out / 'hydra')}",
        f"trainer.resume_mode={'auto' if resume else 'disable'}",
    ]


def describe(values: Mapping[str, float]) -> str:
    """Puts the numbers to watch during a run into a few words."""
    words = [f"reward {values[REWARD]:.3f}"]
    if ZERO_VARIANCE in values:
        words.append(f"zero-variance groups {values[ZERO_VARIANCE]:.0%}")
    words.append(f"{values[STEP_SECONDS]:.2f} s/step")
    return "  ".join(words)


def remaining(seconds: Sequence[float], left: int) -> str:
    """Estimates the time for ``left`` more steps from the latest steps, as ``m:ss``.

    The first step counts only as long as there is no other: it also warms things up.
    """
    estimate = round(median((seconds[1:] or seconds)[-10:]) * left)
    return f"{estimate // 60}:{estimate % 60:02d} left"


def last_words(log: Path, start: int = 0, count: int = SHOWN_LINES) -> list[str]:
    """Gives what a log says about the end of a run.

    Args:
        log: The file.
        start: Bytes of it that were there before the run.
        count: Lines to give at most.

    Returns:
        The message alone if the plugin refused a setting or a batch, or verl a setting: it says what to change, and the
        traceback adds nothing. Else the last lines that tell something: no metrics, no warnings, no prefixes of Ray.
    """
    text = log.read_bytes()[start:].decode(errors="replace")
    lines = [_RAY_PREFIX.sub("", _RAY_PREFIX.sub("", line)) for line in text.splitlines()]
    return (_refusal(lines) or [line for line in lines if not _NOISE.search(line)])[-count:]


def _refusal(lines: Sequence[str]) -> list[str]:
    """Gives the last message of an error that was raised to refuse something; empty if there is none."""
    message: list[str] = []
    by_verl = False
    for number, line in enumerate(lines):
        if line == "Traceback (most recent call last):":
            by_verl = False
        by_verl |= line.endswith(", in validate_config")
        first = _REFUSAL.match(line) or (by_verl and _VERL_REFUSAL.match(line))
        if first:
            rest = takewhile(lambda later: later and not later.startswith("[epgrpo_verl] "), lines[number + 1 :])
            message = [line[first.end() :], *rest]
    return message


class _Display:
    """Shows the steps of a run: a live bar in a terminal, a line per step elsewhere."""

    def __init__(self, console: Console, total: int):
        self._console = console
        self._total = total
        self._seconds: list[float] = []
        self._progress = Progress(
            SpinnerColumn(),
            MofNCompleteColumn(),
            BarColumn(bar_width=20),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=console,
        )
        self._task = self._progress.add_task(STARTING, total=total)
        self._live = Live(self._progress, console=console, refresh_per_second=4) if console.is_terminal else None

    def __enter__(self) -> _Display:
        if self._live:
            self._live.start()
        else:
            self._console.print(STARTING, highlight=False)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live:
            self._live.stop()

    def step(self, number: int, values: Mapping[str, float]) -> None:
        self._seconds.append(values[STEP_SECONDS])
        text = f"{describe(values)}  {remaining(self._seconds, max(0, self._total - number))}"
        if self._live:
            self._progress.update(self._task, completed=number, description=text)
        else:
            self._console.print(f"step {number}/{self._total}  {text}", highlight=False, soft_wrap=True)


@contextmanager
def _signals_to(child: subprocess.Popen):
    """Hands Ctrl-C and SIGTERM on to the child, which ends the run in good order."""

    def hand_on(number: int, frame: FrameType | None) -> None:
        child.send_signal(number)

    handlers = {number: signal.signal(number, hand_on) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def run_training(
    command: Sequence[str], metrics: Path, log: Path, total: int, console: Console, hold: Sequence[int] = ()
) -> int:
    """Runs a training to its end.

    Args:
        command: Program and arguments.
        metrics: File that verl's file logger shall write.
        log: File that gets everything the training prints.
        total: Training steps of the whole run.
        console: Where the progress is shown.
        hold: File descriptors that the command keeps open: the lock of the folder, until it has cleaned up after a
            run whose launcher was killed.

    Returns:
        The exit code of the command.
    """
    environment = {**os.environ, "VERL_FILE_LOGGER_PATH": str(metrics)}
    seen = 0
    with log.open("ab") as output, _Display(console, total) as display:
        # A session of its own: Ctrl-C in a terminal then reaches it once, through this process.
        child = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=end_with_parent,
            pass_fds=hold,
        )
        with _signals_to(child):
            ended = False
            while not ended:
                ended = child.poll() is not None
                steps = parse_lines(metrics.read_text(), str(metrics)) if metrics.exists() else {}
                for number in sorted(steps):
                    if number > seen and REWARD in steps[number] and STEP_SECONDS in steps[number]:
                        display.step(number, steps[number])
                        seen = number
                if not ended:
                    time.sleep(POLL_S)
    return child.returncode
