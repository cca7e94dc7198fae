# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What both commands do on a terminal: progress with the time left, and errors as one message."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from .errors import EvaluationError

LINE_EVERY_S = 60.0

Advance = Callable[[int], None]
"""Is told how many more are done."""


@contextmanager
def messages(
    console: Console,
    command: str,
    stopped: str = "stopped. What is stored stays; the same command goes on from there.",
) -> Iterator[None]:
    """Turn errors that the user can mend into a message and the exit code 1, and Ctrl-C into ``stopped`` and 130."""
    try:
        yield
    except EvaluationError as error:
        text, code = str(error), 1
    except OSError as error:  # a folder that cannot be written, a full disk
        text, code = f"{type(error).__name__}: {error}", 1
    except KeyboardInterrupt:
        text, code = stopped, 130
    else:
        return
    console.print(f"{command}: {text}", style="red", markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(code)


@contextmanager
def progress_bar(console: Console, what: str) -> Iterator[Callable[[int, int], Advance]]:
    """Show how far a run is, by a bar on a terminal and by a line a minute elsewhere.

    Args:
        console: Where.
        what: Names what is counted.

    Yields:
        A function that starts the count, given what is done and what there will be; it returns one that counts on.
    """
    if not console.is_terminal:
        yield lambda done, total: _Lines(console, what, done, total).advance
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    # The speed is averaged over ten minutes: long responses end late and in bursts.
    with Progress(*columns, console=console, speed_estimate_period=600) as bars:

        def start(done: int, total: int) -> Advance:
            task = bars.add_task(what, total=total, completed=done)
            return lambda more: bars.advance(task, more)

        yield start


class _Lines:
    def __init__(self, console: Console, what: str, done: int, total: int) -> None:
        self._console, self._what, self._total = console, what, total
        self._before = self._done = done
        self._started = self._said = time.monotonic()
        console.print(f"{what}: {done} of {total} are there", highlight=False)

    def advance(self, more: int) -> None:
        self._done += more
        now = time.monotonic()
        if now - self._said < LINE_EVERY_S and self._done < self._total:
            return
        self._said = now
        seconds = (now - self._started) / (self._done - self._before) * (self._total - self._done)
        left = timedelta(seconds=round(seconds))
        self._console.print(f"{self._what}: {self._done} of {self._total}, {left} left", highlight=False)
