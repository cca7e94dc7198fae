# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Worker processes for comparisons that may never end.

Each worker is a fresh interpreter, never a fork of a process that holds threads, Ray or CUDA. It does not import the
main script of its parent, so a script needs no ``if __name__ == "__main__"`` guard. It may be started from a daemonic
process and from any thread. No signal handler is used.
"""

import atexit
import os
import subprocess
import sys
import threading
import time
from multiprocessing import Pipe

from .worker import READY, Reply, Request

STARTUP_S = 120.0
# sympy's caches grow; a worker is replaced after this many comparisons.
MAX_REQUESTS = 5000
# A deadline is processor time where that can be read; on a busy machine it may take this many times as long.
PATIENCE = 5.0

# The parent's import path is handed over, so that the child finds the same packages.
_BOOTSTRAP = "import sys; sys.path[:] = sys.argv[3:]; from epgrpo_verl.grading.worker import main; main(sys.argv[1:3])"


class GraderUnavailable(RuntimeError):  # noqa: N818
    """Raised where no worker can be started at all, so that no answer is graded instead of all answers wrong."""


class _Worker:
    def __init__(self, memory_mb: int) -> None:
        self.requests = 0
        self._connection, child = Pipe()
        command = [sys.executable, "-c", _BOOTSTRAP, str(child.fileno()), str(memory_mb), *sys.path]
        try:
            self._process = subprocess.Popen(
                command,
                pass_fds=[child.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
        except OSError as error:
            self._connection.close()
            raise GraderUnavailable(f"cannot start a grading worker: {error}") from error
        finally:
            child.close()
        greeting = self._receive(STARTUP_S)
        if greeting != READY:
            self.kill()
            detail = greeting or f"it did not come up within {STARTUP_S:.0f} s, or not within memory_mb={memory_mb}"
            hint = "pip install 'math-verify>=0.9'"
            raise GraderUnavailable(f"a grading worker failed to start: {detail}. If a package is missing: {hint}")

    def ask(self, request: Request) -> Reply:
        """Returns the worker's reply; the clock starts here. The worker must be replaced if the verdict is ``None``."""
        self.requests += 1
        started = time.monotonic()
        used_before = _processor_seconds(self._process.pid)
        try:
            self._connection.send(request)
        except OSError:
            return Reply(None, "worker_died")
        remaining = request.deadline_s
        while remaining > 0:
            reply = self._receive(remaining)
            if reply is not None:
                return reply
            if self._process.poll() is not None:
                return Reply(None, "worker_died")
            elapsed = time.monotonic() - started
            used = _processor_seconds(self._process.pid)
            worked = elapsed if used is None or used_before is None else used - used_before
            # The processor time is counted in hundredths of a second.
            remaining = min(request.deadline_s - worked - 0.02, request.deadline_s * PATIENCE - elapsed)
        return Reply(None, "timeout")

    def _receive(self, seconds: float) -> Reply | str | None:
        try:
            if not self._connection.poll(seconds):
                return None
            return self._connection.recv()
        except (EOFError, OSError):
            # The worker has closed its end: it is gone, or about to be.
            self._process.wait()
            return None

    def end(self) -> None:
        """Ends the process; a thread that waits for its reply sees it die."""
        self._process.kill()
        self._process.wait()

    def kill(self) -> None:
        """Ends the process and closes the connection."""
        self.end()
        self._connection.close()


def _processor_seconds(pid: int) -> float | None:
    """Returns the processor time a process has used, or ``None`` where the system has no ``/proc``."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class WorkerPool:
    """At most ``size`` workers, started when first needed. Safe to use from many threads.

    A request waits for a free worker without a limit; its deadline begins when a worker begins. A worker that misses
    the deadline, dies or runs out of memory is killed and replaced.

    Args:
        size: The largest number of worker processes.
        memory_mb: The address space of one worker, in MB. An idle one takes about 100.
    """

    def __init__(self, size: int, memory_mb: int) -> None:
        if size < 1:
            raise ValueError(f"workers must be at least 1, got {size}")
        if memory_mb < 256:
            raise ValueError(f"memory_mb must be at least 256, got {memory_mb}")
        self._memory_mb = memory_mb
        self._slots = threading.BoundedSemaphore(size)
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()
        self._closed = False
        self._owner = os.getpid()
        atexit.register(self.close)

    def ask(self, request: Request) -> Reply:
        """Compares one answer in a worker.

        A worker that dies is given the request once more, in a fresh process, as something else may have killed it.

        Raises:
            GraderUnavailable: If no worker can be started, or the pool is closed.
        """
        with self._slots:
            reply = self._ask_once(request)
            return self._ask_once(request) if reply.reason == "worker_died" else reply

    def _ask_once(self, request: Request) -> Reply:
        worker = self._take()
        healthy = False
        try:
            reply = worker.ask(request)
            healthy = reply.equal is not None and worker.requests < MAX_REQUESTS
            return reply
        finally:
            self._give_back(worker, healthy)

    def _take(self) -> _Worker:
        with self._lock:
            if self._closed:
                raise GraderUnavailable("the grading workers are closed")
            worker = self._idle.pop() if self._idle else None
            if worker is not None:
                self._busy.add(worker)
                return worker
        worker = _Worker(self._memory_mb)
        with self._lock:
            if not self._closed:
                self._busy.add(worker)
                return worker
        worker.kill()
        raise GraderUnavailable("the grading workers are closed")

    def _give_back(self, worker: _Worker, healthy: bool) -> None:
        with self._lock:
            self._busy.discard(worker)
            if healthy and not self._closed:
                self._idle.append(worker)
                return
        worker.kill()

    def close(self) -> None:
        """Kills all workers. Requests under way end as ``worker_died``, later ones raise."""
        if os.getpid() != self._owner:
            # A forked child ends; the workers are its parent's.
            return
        with self._lock:
            self._closed = True
            workers = [*self._idle, *self._busy]
            self._idle.clear()
        for worker in workers:
            worker.end()
