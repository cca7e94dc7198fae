# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Shows how far a grid is: a live view in a terminal, a line per run elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console
from rich.live import Live
from rich.text import Text

from benchmarks.learning.grid import Estimate, TrainJob, hours
from benchmarks.learning.schedule import Watcher

REFRESH_S = 2.0
"""Seconds between two refreshes in a terminal."""
LINE_S = 300.0
"""Seconds between two lines about the time left elsewhere."""


class GridDisplay(Watcher):
    """Tells about runs as they start and end, and what is left.

    Args:
        console: Where to.
        estimate: Gives the time left.
        done: Runs that were stored before.
        total: Runs of the grid.
        at_once: Runs at a time.
    """

    def __init__(self, console: Console, estimate: Estimate, done: int, total: int, at_once: int):
        self._console = console
        self._estimate = estimate
        self._done = done
        self._total = total
        self._at_once = at_once
        self._next = 0.0
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None

    def __enter__(self) -> GridDisplay:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live:
            self._live.stop()

    def _say(self, text: str, style: str = "") -> None:
        self._console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)

    def started(self, job: TrainJob) -> None:
        """Says that a run starts."""
        self._say(f"start {job.run}  (about {hours(self._estimate.of(job.run))})")
        self._next = 0.0

    def ended(self, job: TrainJob, problem: str) -> None:
        """Says how a run ended."""
        if problem:
            self._say(f"not finished {job.run}: {problem}", style="red")
            return
        self._done += 1
        self._estimate.add(job.run, job.elapsed())
        self._say(f"done  {job.run}  {job.elapsed():.0f} s   {self._done}/{self._total} runs")
        self._next = 0.0

    def tick(self, running: Sequence[TrainJob], waiting: Sequence[TrainJob]) -> None:
        """Refreshes what is left."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + (REFRESH_S if self._live else LINE_S)
        left = hours(self._estimate.left(running, [job.run for job in waiting], self._at_once))
        if self._live:
            lines = [f"  {job.run}  step {job.steps_done()}/{job.run.task.steps}" for job in running]
            text = "\n".join([*lines, f"{self._done}/{self._total} runs done, about {left} left"])
            self._live.update(Text(text), refresh=True)
        elif running:
            self._say(f"      {self._done}/{self._total} runs done, about {left} left")
