# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Does the runs of a grid that are not finished yet."""

from __future__ import annotations

import fcntl
import os
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
from benchmarks.learning.store import ChangedSettings, Store, about, data_digest, fixed_settings
from epgrpo_verl.cpu.processes import end_with_parent
from epgrpo_verl.view.metrics import metrics_files, parse_lines

OUTPUT = "output.txt"
"""File in a run's folder with what the training showed, beside its train.log."""


class TrainJob:
    """One run, as a job of the scheduler.

    Args:
        run: The run.
        where: Its folders.
        store: Gets it when it is finished.
        settings: What is stored with it, made of these two commands.
        prepare: Makes model and problems.
        train: Trains.
    """

    def __init__(
        self, run: Run, where: Folders, store: Store, settings: dict[str, Any], prepare: list[str], train: list[str]
    ):
        self.run = run
        self.where = where
        self.prepare = prepare
        self.train = train
        self._store = store
        self._settings = settings
        self._about: dict[str, Any] = {}
        self._started = time.monotonic()

    def start(self) -> subprocess.Popen:
        """Prepares model and data unless they are there, and starts the training.

        Raises:
            RuntimeError: They cannot be prepared, or are not those of the stored runs of this seed.
        """
        self._about = about()
        shutil.rmtree(self.where.out, ignore_errors=True)
        self.where.out.mkdir(parents=True)
        with (self.where.out / OUTPUT).open("wb") as output:
            if subprocess.run(self.prepare, env=environment(), stdout=output, stderr=subprocess.STDOUT).returncode:
                raise RuntimeError(f"model and data could not be made:\n{self._last_words()}")
            self._store.check_data(self.run, data_digest(self.where.data))
            self._started = time.monotonic()
            # A session of its own: Ctrl-C in a terminal then reaches the training once, from the scheduler.
            return subprocess.Popen(
                self.train,
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
        lasted = {"seconds": round(self.elapsed(), 1)}
        self._store.save(self.run, self._settings, data_digest(self.where.data), series, self._about | lasted)
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
def alone(folder: Path, option: str) -> Iterator[None]:
    """Keeps a second grid out of a folder.

    Args:
        folder: The folder; made if it is not there.
        option: The command's option that names it, for the error.

    Raises:
        RuntimeError: Another one is at work there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(f"another grid is at work in {folder}: wait for it, or name another {option}") from None
        yield
    finally:
        os.close(lock)


def pending(runs: Sequence[Run], store: Store, work: Path) -> list[TrainJob]:
    """Gives a job for each run that is not stored yet.

    Raises:
        ChangedSettings: A run, or others of its task, are stored with other settings. The first is named, and how many
            there are.
    """
    jobs, changed = [], []
    for run in runs:
        where = folders(work, run)
        prepare, train = commands(run, where)
        settings = fixed_settings(run, where, prepare, train)
        try:
            if not store.finished(run, settings):
                store.check_alike(run, settings)
                jobs.append(TrainJob(run, where, store, settings, prepare, train))
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
