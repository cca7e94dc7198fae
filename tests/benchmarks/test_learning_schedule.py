# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The scheduler, with commands that take a moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from benchmarks.learning import schedule
from benchmarks.learning.schedule import GIVE_UP_AFTER, Watcher, run_all


class Fake:
    """A job that runs a line of Python."""

    def __init__(self, code: str = "", problem: str = "", refuse: str = ""):
        self.code, self.problem, self.refuse = code, problem, refuse
        self.span = [0.0, 0.0]
        self.exit: int | None = None

    def start(self) -> subprocess.Popen:
        if self.refuse:
            raise RuntimeError(self.refuse)
        self.span[0] = time.monotonic()
        return subprocess.Popen([sys.executable, "-S", "-c", self.code], stderr=subprocess.DEVNULL)

    def finish(self, code: int) -> str:
        self.span[1], self.exit = time.monotonic(), code
        return self.problem or (f"exit code {code}" if code else "")


@pytest.fixture(autouse=True)
def look_often(monkeypatch):
    monkeypatch.setattr(schedule, "POLL_S", 0.02)


def overlapping(jobs: list[Fake]) -> int:
    """The most jobs that ran at one moment."""
    return max(sum(job.span[0] <= at < job.span[1] for job in jobs) for at in (job.span[0] for job in jobs))


def test_one_at_a_time_runs_in_order():
    jobs = [Fake() for _ in range(4)]
    assert run_all(jobs, 1).finished == jobs
    assert overlapping(jobs) == 1


def test_two_at_a_time_run_side_by_side():
    jobs = [Fake("import time; time.sleep(0.5)") for _ in range(5)]
    assert len(run_all(jobs, 2).finished) == 5
    assert overlapping(jobs) == 2


def test_a_job_that_fails_does_not_stop_the_others():
    jobs = [Fake("raise SystemExit(3)"), Fake(), Fake(problem="a step is missing"), Fake(refuse="no model"), Fake()]
    outcome = run_all(jobs, 1)
    assert outcome.finished == [jobs[1], jobs[4]]
    assert [why for _, why in outcome.failed] == ["exit code 3", "a step is missing", "no model"]
    assert not outcome.given_up


def test_jobs_that_all_fail_are_given_up():
    jobs = [Fake("raise SystemExit(1)") for _ in range(GIVE_UP_AFTER + 3)]
    outcome = run_all(jobs, 1)
    assert outcome.given_up
    assert len(outcome.failed) == GIVE_UP_AFTER
    assert jobs[-1].exit is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_the_running_jobs_and_starts_no_other(number):
    jobs = [Fake("import time; time.sleep(60)") for _ in range(4)]
    before = signal.getsignal(number)

    class Interrupt(Watcher):
        def tick(self, running, waiting):
            if len(running) == 2 and not self.sent:
                self.sent = True
                threading.Timer(0.5, os.kill, (os.getpid(), number)).start()

    watcher = Interrupt()
    watcher.sent = False
    started = time.monotonic()
    outcome = run_all(jobs, 2, watcher)
    assert time.monotonic() - started < 30
    assert outcome.interrupted
    assert outcome.finished == outcome.failed == []
    assert [job.exit is None for job in jobs] == [False, False, True, True]
    assert signal.getsignal(number) == before


def test_a_job_that_ends_well_in_spite_of_the_signal_is_kept():
    code = "import signal, time; signal.signal(signal.SIGINT, lambda *_: None); print(flush=True); time.sleep(3)"
    job = Fake(code)
    threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    outcome = run_all([job, Fake()], 1)
    assert outcome.interrupted and outcome.finished == [job]


def test_less_than_one_at_a_time_is_refused():
    with pytest.raises(ValueError, match="at_once=0"):
        run_all([], 0)
