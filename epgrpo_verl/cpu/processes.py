# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The processes and shared memory of one run: find them all, and leave nothing behind.

Ray starts its daemons in sessions of their own, and they outlive the process that started them, so neither a process
group nor the tree below the trainer is enough. Linux lets a process adopt its orphaned descendants
(``PR_SET_CHILD_SUBREAPER``), so that the tree below the launcher always holds every process of the run, and no other.
"""

import ctypes
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import psutil

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_SHM = Path("/dev/shm")
# What Python's SharedMemory, torch and multiprocessing's semaphores create there. Ray's object store unlinks its own.
_SHM_PREFIXES = ("psm_", "torch_", "sem.mp-", "plasma", "ray")
_LOOKS = 3


def adopt_orphans() -> None:
    """Make this process the parent of its descendants whose parent ends. Does nothing outside Linux."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent() -> None:
    """Have this process get SIGTERM when its parent ends. Called between fork and exec. Nothing outside Linux."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def descendants() -> list[psutil.Process]:
    """Give all live processes below this one."""
    return psutil.Process().children(recursive=True)


def reap(keep: int) -> None:
    """Collect adopted children that have ended, except the child with process id ``keep``."""
    for child in psutil.Process().children():
        try:
            if child.pid != keep and child.status() == psutil.STATUS_ZOMBIE:
                os.waitpid(child.pid, os.WNOHANG)
        except (psutil.NoSuchProcess, ChildProcessError):
            continue


def command_line(process: psutil.Process) -> list[str]:
    """Give a process's command line, or an empty list if it has ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def parent_id(process: psutil.Process) -> int:
    """Give the process id of a process's parent, or 0 if the process has ended."""
    try:
        return process.ppid()
    except psutil.Error:
        return 0


def end_all(patience_s: float = 3.0, limit_s: float = 20.0) -> int:
    """End every process below this one: politely, then by force.

    multiprocessing's resource trackers go last: they unlink the shared memory of the processes that were killed.

    Args:
        patience_s: Seconds between SIGTERM and SIGKILL.
        limit_s: Seconds after which the rest is given up.

    Returns:
        Number of processes that could not be ended.
    """
    give_up = time.monotonic() + limit_s
    while time.monotonic() < give_up:
        reap(keep=-1)
        alive = descendants()
        if not alive:
            return 0
        trackers = [p for p in alive if any("resource_tracker" in part for part in command_line(p))]
        others = [p for p in alive if p not in trackers]
        _signal(others or trackers, signal.SIGTERM)
        _, left = psutil.wait_procs(others or trackers, timeout=patience_s)
        _signal(left, signal.SIGKILL)
        psutil.wait_procs(left, timeout=patience_s)
    reap(keep=-1)
    return len(descendants())


def _signal(processes: list[psutil.Process], number: int) -> None:
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.NoSuchProcess:
            continue


class SharedMemory:
    """Keeps track of the files in /dev/shm that the run's processes have open, and removes those that they leave."""

    def __init__(self) -> None:
        self._before = set(self._listing().items())
        self._ours: set[tuple[str, int]] = set()
        self._looks: Counter[tuple[str, int]] = Counter()

    @staticmethod
    def _listing() -> dict[str, int]:
        try:
            return {entry.name: entry.inode() for entry in os.scandir(_SHM) if entry.name.startswith(_SHM_PREFIXES)}
        except OSError:
            return {}

    def look(self, processes: list[psutil.Process]) -> None:
        """Record the new files that the processes have open or mapped.

        A file is looked up a few times only: reading all memory maps takes a while, and other runs have files too.
        """
        unknown = set(self._listing().items()) - self._before - self._ours
        unknown = {file for file in unknown if self._looks[file] < _LOOKS}
        if unknown:
            self._looks.update(unknown)
            used = set().union(*(self._used_by(process) for process in processes), set())
            self._ours |= {(name, inode) for name, inode in unknown if name in used}

    @staticmethod
    def _used_by(process: psutil.Process) -> set[str]:
        prefix = f"{_SHM}/"
        names = set()
        proc = Path("/proc") / str(process.pid)
        try:
            for descriptor in (proc / "fd").iterdir():
                target = os.readlink(descriptor)
                if target.startswith(prefix):
                    names.add(target.removeprefix(prefix))
        except OSError:
            pass
        try:
            for line in (proc / "maps").read_text(errors="replace").splitlines():
                if prefix in line:
                    names.add(line.split(prefix, 1)[1])
        except OSError:
            pass
        return names

    def remove(self) -> list[str]:
        """Unlink what the run left. Call it when all its processes have ended.

        Returns:
            Names of the removed files.
        """
        left = [name for name, _ in self._ours & set(self._listing().items())]
        for name in left:
            (_SHM / name).unlink(missing_ok=True)
        return left
