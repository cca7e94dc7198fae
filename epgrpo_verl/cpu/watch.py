# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Notice when a process that a run depends on has died."""

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import IO

import psutil

from . import processes

GONE_S = 15.0
"""Seconds for which a process has to be gone: a trainer that ends takes its workers down before itself, and a busy
machine is slow."""
_DAEMONS = ("gcs_server", "raylet")
_AGAIN_S = 5.0
"""Seconds until the program that asks Ray is started again: the first times, Ray may not answer yet."""
_ATTEMPTS = 5
"""Attempts after which it is told that Ray does not answer."""


class Watch:
    """Looks at the processes of a run, and asks Ray about its actors.

    Args:
        environment: The run's environment; holds the token of its Ray cluster.
        tell: Called with a line for the user.
    """

    def __init__(self, environment: dict[str, str], tell: Callable[[str], None]):
        self._environment = environment
        self._tell = tell
        self._last_seen: dict[tuple[int, str], float] = {}
        self._reporter: subprocess.Popen | None = None
        self._errors: IO[str]
        self._attempts = 0
        self._asked = -_AGAIN_S
        self._reports: SimpleQueue[str] = SimpleQueue()

    def look(self, tree: list[psutil.Process]) -> list[str]:
        """Give what has died and was not given before.

        Args:
            tree: All live processes of the run.

        Returns:
            A description of each: Ray actors by Ray's own account, Ray's daemons and vLLM's engines by their absence.
        """
        now = time.monotonic()
        lines = {process.pid: processes.command_line(process) for process in tree}
        titles = {pid: title for pid, line in lines.items() if (title := self._title(line))}
        # A process that was just forked has its parent's command line until it runs a program of its own.
        forked = {
            process.pid for process in tree if titles.get(processes.parent_id(process)) == titles.get(process.pid)
        }
        self._last_seen |= {(pid, title): now for pid, title in titles.items() if pid not in forked}
        gone = [key for key, seen in self._last_seen.items() if now - seen > GONE_S]
        for key in gone:
            del self._last_seen[key]
        if now - self._asked >= _AGAIN_S and (self._reporter is None or self._reporter.poll() is not None):
            self._ask(lines, now)
        reports = [self._reports.get() for _ in range(self._reports.qsize())]
        return reports + [f"{title} (process {pid})" for pid, title in gone]

    @staticmethod
    def _title(line: list[str]) -> str | None:
        """Name a process whose end Ray does not report: its own daemons, and vLLM's engines below their actors."""
        program = line[0] if line else ""
        if program.startswith("VLLM::"):
            return program
        name = program.rsplit("/", 1)[-1]
        return f"Ray's {name}" if name in _DAEMONS else None

    def _ask(self, lines: dict[int, list[str]], now: float) -> None:
        """Start the program that reports dead actors, once Ray's node manager is there to tell the address."""
        flag = "--gcs-address="
        arguments = (part for line in lines.values() if line and line[0].endswith("/raylet") for part in line)
        address = next((part.removeprefix(flag) for part in arguments if part.startswith(flag)), None)
        if address is None:
            return
        if self._attempts == _ATTEMPTS:
            self._errors.seek(0)
            error = self._errors.read().strip().rsplit("\n", 1)[-1]
            self._tell(f"Ray at {address} does not say which actors died, so a dead worker may go unnoticed: {error}")
        self._asked, self._attempts = now, self._attempts + 1
        self._errors = tempfile.TemporaryFile("w+")
        self._reporter = subprocess.Popen(
            [sys.executable, "-m", "epgrpo_verl.cpu.ray_actors", address],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            preexec_fn=processes.end_with_parent,
        )
        threading.Thread(target=self._read, args=(self._reporter,), daemon=True).start()

    def _read(self, reporter: subprocess.Popen) -> None:
        for line in reporter.stdout:
            self._reports.put(line.strip())
