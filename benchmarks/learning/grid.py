# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Does the runs of a grid that are not finished yet."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.learning.arms import Run
from benchmarks.learning.commands import Folders, commands, environment, folders
from benchmarks.learning.compact import compact
from benchmarks.learning.store import ChangedSettings, Store, data_digest, fixed_settings
from epgrpo_verl.cpu.processes import end_with_parent
from epgrpo_verl.view.metrics import metrics_files, parse_lines

OUTPUT = "output.txt"
"""File in a run's folder with what the training showed, beside its train.log."""


class TrainJob:
    """One run, as a job of the scheduler."""

    def __init__(self, run: Run, where: Folders, store: Store, settings: dict[str, Any]):
        self.run = run
        self.where = where
        self._store = store
        self._settings = settings
        self._started = time.monotonic()

    def start(self) -> subprocess.Popen:
        """Prepares model and data unless they are there, and starts the training.

        Raises:
            RuntimeError: They cannot be prepared, or are not those of the stored runs of this seed.
        """
        prepare, train = commands(self.run, self.where)
        shutil.rmtree(self.where.out, ignore_errors=True)
        self.where.out.mkdir(parents=True)
        with (self.where.out / OUTPUT).open("wb") as output:
            if subprocess.run(prepare, env=environment(), stdout=output, stderr=subprocess.STDOUT).returncode:
                raise RuntimeError(f"model and data could not be made:\n{self._last_words()}")
            self._store.check_data(self.run, data_digest(self.where.data))
            self._started = time.monotonic()
            # A session of its own: Ctrl-C in a terminal then reaches the training once, from the scheduler.
            return subprocess.Popen(
                train,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )

    def finish(self, code: int) -> str:
        """Stores the run if it is whole; says what is wrong with it otherwise."""
        if code:
            return f"exit code {code}\n{self._last_words()}"
        try:
            series = compact(self.where.out, self.run.task.steps)
        except (ValueError, FileNotFoundError) as error:
            return str(error)
        self._store.save(self.run, self._settings, data_digest(self.where.data), series, self.elapsed())
        return ""

    def elapsed(self) -> float:
        """Gives the seconds since the training was started."""
        return time.monotonic() - self._started

    def steps_done(self) -> int:
        """Gives the number of training steps that have been logged."""
        files = metrics_files(self.where.out)
        return max(parse_lines(files[-1].read_text(), str(files[-1])), default=0) if files else 0

    def _last_words(self, count: int = 12) -> str:
        lines = (self.where.out / OUTPUT).read_text(errors="replace").splitlines()[-count:]
        return "\n".join(["  | " + line for line in lines] + [f"in {self.where.out}"])


@contextmanager
def alone(work: Path) -> Iterator[None]:
    """Keeps a second grid out of a working folder.

    Raises:
        RuntimeError: Another one is at work there.
    """
    work.mkdir(parents=True, exist_ok=True)
    with (work / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(f"another grid is at work in {work}: wait for it, or name another --work") from None
        yield


def pending(runs: Sequence[Run], store: Store, work: Path) -> list[TrainJob]:
    """Gives a job for each run that is not stored yet.

    Raises:
        ChangedSettings: A run is stored with other settings; every such run is named.
    """
    jobs, changed = [], []
    for run in runs:
        where = folders(work, run)
        settings = fixed_settings(run, where)
        try:
            if not store.finished(run, settings):
                jobs.append(TrainJob(run, where, store, settings))
        except ChangedSettings as error:
            changed.append(str(error))
    if changed:
        more = f"\n... and {len(changed) - 1} more runs" if len(changed) > 1 else ""
        raise ChangedSettings(changed[0] + more)
    return jobs


class Estimate:
    """How long runs take: the median of the stored runs of the task, or a rough figure until there is one."""

    def __init__(self, store: Store, runs: Sequence[Run]):
        self._seconds: dict[str, list[float]] = {}
        for run in runs:
            if (stored := store.load(run)) is not None:
                self.add(run, stored.about["seconds"])

    def add(self, run: Run, seconds: float) -> None:
        """Takes a finished run into account."""
        self._seconds.setdefault(run.task.name, []).append(seconds)

    def of(self, run: Run) -> float:
        """Gives the seconds of a run."""
        if known := self._seconds.get(run.task.name):
            return median(known)
        return run.task.start_s + run.task.steps * run.task.step_s

    def left(self, running: Sequence[TrainJob], waiting: Sequence[Run], at_once: int) -> float:
        """Gives the seconds until all is done."""
        rest = [max(0.0, self.of(job.run) - job.elapsed()) for job in running]
        return max([sum(rest + [self.of(run) for run in waiting]) / at_once, *rest])


def hours(seconds: float) -> str:
    """Writes a duration as hours and minutes."""
    minutes = round(seconds / 60)
    if minutes == 0:
        return "less than a minute"
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min"
