# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs commands in order, some at a time, and ends them cleanly on Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Protocol

POLL_S = 0.5
"""Seconds between two looks at the running commands."""
GIVE_UP_AFTER = 3
"""Commands that fail one after the other before the rest is not tried any more: something is wrong with all of them."""


class Job(Protocol):
    """A command to run."""

    def start(self) -> subprocess.Popen:
        """Starts it. An exception counts as a failure of this job only if it is a RuntimeError."""

    def finish(self, code: int) -> str:
        """Looks at what it left. Returns what is wrong with it, or an empty string."""


@dataclass
class Outcome:
    """How a schedule ended.

    Attributes:
        finished: Jobs that went well.
        failed: Jobs that did not, and why.
        interrupted: Whether a signal ended it.
        given_up: Whether it ended because of :data:`GIVE_UP_AFTER`.
    """

    finished: list[Job] = field(default_factory=list)
    failed: list[tuple[Job, str]] = field(default_factory=list)
    interrupted: bool = False
    given_up: bool = False


class Watcher:
    """What is told about the jobs; does nothing."""

    def started(self, job: Job) -> None:
        """Called when a job has been started."""

    def ended(self, job: Job, problem: str) -> None:
        """Called when it has ended; ``problem`` is empty if it went well."""

    def tick(self, running: Sequence[Job], waiting: Sequence[Job]) -> None:
        """Called at every look."""


@contextmanager
def _signals(hand_on: Callable[[int], None]):
    def handler(number: int, frame: FrameType | None) -> None:
        hand_on(number)

    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def run_all(jobs: Sequence[Job], at_once: int, watcher: Watcher | None = None) -> Outcome:
    """Runs jobs in their order, ``at_once`` of them at a time.

    A job that fails does not stop the others, see :data:`GIVE_UP_AFTER`. SIGINT and SIGTERM are handed on to the
    running jobs, each time one comes; no further job is started, and the call returns when they have ended.

    Args:
        jobs: What to run.
        at_once: How many at a time, at least 1.
        watcher: Is told what happens.
    """
    if at_once < 1:
        raise ValueError(f"at_once={at_once} must be at least 1")
    watcher = watcher or Watcher()
    outcome = Outcome()
    waiting = list(jobs)
    running: dict[int, tuple[Job, subprocess.Popen]] = {}
    in_a_row = 0

    def hand_on(number: int) -> None:
        outcome.interrupted = True
        for _, child in running.values():
            child.send_signal(number)

    def end(job: Job, problem: str) -> None:
        nonlocal in_a_row
        if not problem:
            outcome.finished.append(job)
            in_a_row = 0
        elif not outcome.interrupted:
            outcome.failed.append((job, problem))
            in_a_row += 1
            outcome.given_up = outcome.given_up or in_a_row >= GIVE_UP_AFTER
        watcher.ended(job, problem)

    with _signals(hand_on):
        while running or (waiting and not outcome.interrupted and not outcome.given_up):
            while waiting and len(running) < at_once and not outcome.interrupted and not outcome.given_up:
                job = waiting.pop(0)
                try:
                    child = job.start()
                except RuntimeError as error:
                    end(job, str(error))
                    continue
                running[child.pid] = (job, child)
                watcher.started(job)
                if outcome.interrupted:  # while it was being started
                    child.send_signal(signal.SIGINT)
            for pid, (job, child) in list(running.items()):
                code = child.poll()
                if code is not None:
                    del running[pid]
                    end(job, job.finish(code))
            watcher.tick([job for job, _ in running.values()], waiting)
            if running:
                time.sleep(POLL_S)
    return outcome
