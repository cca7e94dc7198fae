# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Run verl's trainer so that it ends, and leaves nothing behind, whatever happens to it.

verl waits for ever in some places where a worker died under it, Ray's daemons outlive a killed driver, and vLLM leaves
sockets and shared memory. So the trainer runs as a child with a temporary folder of its own, and the launcher watches
its processes, ends them all, and removes what they left.
"""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import processes
from .watch import Watch

POLL_S = 1.0
"""Seconds between two looks at the run's processes."""
GRACE_S = 30.0
"""Seconds that the trainer gets to end by itself, after a signal or after one of its workers died."""
TELL_S = 5.0
"""Seconds from noticing a death to telling it: a trainer takes its workers down as it ends, and Ray reports that."""
FAILED = 70
"""Exit code when the launcher had to end a run whose worker died."""

# A Unix socket's path has at most 107 bytes, and Ray's longest is this much longer than its temporary folder.
_SOCKET_PATH_LIMIT = 107
_RAY_PATH = len("/ray/session_2026-01-01_00-00-00_000000_0000000/sockets/plasma_store")


def train(overrides: list[str], variables: dict[str, str], logs: str | None = None) -> int:
    """Run ``verl.trainer.main_ppo`` until it ends, and clean up after it.

    Args:
        overrides: Hydra overrides.
        variables: Environment variables to add.
        logs: Folder that gets Ray's log files if the run fails; None to drop them.

    Returns:
        The trainer's exit code; 128 + n if it was ended by signal n; :data:`FAILED` if a worker died and the trainer
        did not end by itself.
    """
    command = [sys.executable, "-m", "verl.trainer.main_ppo", *overrides]
    os.environ.update(_authentication())
    with _temporary_folder() as folder:
        code = Run(command, {**os.environ, **variables, **_isolation(folder)}).run()
        if code and logs:
            _keep_logs(folder, Path(logs))
    return code


def _isolation(folder: Path) -> dict[str, str]:
    return {
        "TMPDIR": str(folder),
        "RAY_TMPDIR": str(folder),
        "RAY_ADDRESS": "local",  # never join another cluster on this machine
        "PYTHONUNBUFFERED": "1",
    }


def _authentication() -> dict[str, str]:
    """Give the run's Ray cluster a token that the launcher knows too, instead of one in the user's home folder."""
    if "RAY_AUTH_MODE" in os.environ:
        return {}
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    parent = tempfile.gettempdir()
    if len(os.fsencode(parent)) + len("/epg-12345678") + _RAY_PATH > _SOCKET_PATH_LIMIT:
        parent = "/tmp"
    folder = Path(tempfile.mkdtemp(prefix="epg-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _keep_logs(folder: Path, target: Path) -> None:
    for session in (folder / "ray").glob("session_2*"):
        shutil.copytree(session / "logs", target / session.name, dirs_exist_ok=True, ignore_dangling_symlinks=True)
        _say(f"Ray's logs are in {target / session.name}")


def _say(text: str) -> None:
    print(f"[epgrpo_verl] {text}", file=sys.stderr, flush=True)


class Run:
    """One run of a command that starts a Ray cluster.

    Args:
        command: Program and arguments.
        environment: The whole environment of the command.
    """

    def __init__(self, command: list[str], environment: dict[str, str]):
        self.command = command
        self.environment = environment
        self.shared_memory = processes.SharedMemory()
        self._watch = Watch(environment, _say)
        self._signals: list[int] = []
        self._dead: list[str] = []
        self._told: set[str] = set()
        self._child: subprocess.Popen

    def run(self) -> int:
        """Run the command to its end, end all its processes, remove its shared memory, and return the exit code."""
        processes.adopt_orphans()
        handlers = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            # A session of its own: Ctrl-C in a terminal then reaches only the launcher, which passes it on.
            self._child = subprocess.Popen(
                self.command,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=processes.end_with_parent,
            )
            return self._wait()
        finally:
            self.shared_memory.look(processes.descendants())
            if left := processes.end_all():
                _say(f"{left} processes could not be ended: {[p.pid for p in processes.descendants()]}")
            self.shared_memory.remove()
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: object) -> None:
        self._signals.append(number)

    def _wait(self) -> int:
        noticed: float | None = None
        while True:
            try:
                return self._ended(self._child.wait(POLL_S))
            except subprocess.TimeoutExpired:
                pass
            if self._signals:
                return self._interrupted()
            self._look()
            if self._dead:
                noticed = noticed or time.monotonic()
                waited = time.monotonic() - noticed
                if waited > min(TELL_S, GRACE_S):
                    self._tell_dead()
                if waited > GRACE_S:
                    _say(f"the trainer did not end by itself within {GRACE_S:.0f} s: ending the run")
                    return FAILED

    def _look(self) -> None:
        tree = processes.descendants()
        processes.reap(keep=self._child.pid)
        self.shared_memory.look(tree)
        self._dead += self._watch.look(tree)

    def _tell_dead(self) -> None:
        # Ray's daemons go down with the trainer: they are told of only if nothing else died.
        for what in [name for name in self._dead if not name.startswith("Ray's ")] or self._dead:
            if what not in self._told:
                self._told.add(what)
                _say(f"a worker of the run died: {what}")

    def _ended(self, code: int) -> int:
        if code == 0:
            return 0
        self._look()
        self._tell_dead()
        if code < 0:
            _say(f"the trainer was ended by {signal.Signals(-code).name}")
            return 128 - code
        _say(f"the trainer ended with exit code {code}")
        return code

    def _interrupted(self) -> int:
        number = self._signals[0]
        _say(f"{signal.Signals(number).name}: ending the run (again to end it at once)")
        self._child.send_signal(number)
        give_up = time.monotonic() + GRACE_S
        while time.monotonic() < give_up and len(self._signals) < 2:
            try:
                self._child.wait(0.2)
                break
            except subprocess.TimeoutExpired:
                continue
        _say("the run was interrupted; with trainer.resume_mode=auto it goes on from its last checkpoint")
        return 128 + number
