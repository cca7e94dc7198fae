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
from .ray_actors import ActorTable, DeadActor, gcs_address

POLL_S = 1.0
"""Seconds between two looks at the run's processes."""
GRACE_S = 20.0
"""Seconds that the trainer gets to end by itself, after a signal or after one of its workers died."""
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
        self._signals: list[int] = []
        self._actors: ActorTable | None = None
        self._engines: dict[int, str] = {}
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
            return self._watch()
        finally:
            self.shared_memory.look(processes.descendants())
            if left := processes.end_all():
                _say(f"{left} processes could not be ended: {[p.pid for p in processes.descendants()]}")
            self.shared_memory.remove()
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: object) -> None:
        self._signals.append(number)

    def _watch(self) -> int:
        deadline: float | None = None
        dead: list[str] = []
        while True:
            try:
                code = self._child.wait(POLL_S)
            except subprocess.TimeoutExpired:
                pass
            else:
                return self._explain(code, dead)
            if self._signals:
                return self._interrupted()
            if deadline is not None:
                if time.monotonic() > deadline:
                    _say(f"the trainer did not notice within {GRACE_S:.0f} s, so the run is ended")
                    return FAILED
                continue
            if dead := self._look():
                for what in dead:
                    _say(f"a worker of the run died: {what}")
                deadline = time.monotonic() + GRACE_S

    def _explain(self, code: int, dead: list[str]) -> int:
        if code and not dead:
            dead = self._look()
            for what in dead:
                _say(f"a worker of the run died: {what}")
        if code < 0:
            _say(f"the trainer was ended by {signal.Signals(-code).name}")
            return 128 - code
        if code:
            _say(f"the trainer ended with exit code {code}")
        elif dead:
            _say("the trainer ended without an error though a worker died: the run is not complete")
            return FAILED
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

    def _look(self) -> list[str]:
        """Look at the run's processes and give those that died though they should not have."""
        tree = processes.descendants()
        processes.reap(keep=self._child.pid)
        self.shared_memory.look(tree)
        return [str(actor) for actor in self._dead_actors(tree)] + self._dead_engines(tree)

    def _dead_actors(self, tree: list) -> list[DeadActor]:
        if self._actors is None:
            raylets = [line for p in tree if (line := processes.command_line(p)) and line[0].endswith("/raylet")]
            address = gcs_address(raylets[0]) if raylets else None
            if address is None:
                return []
            try:
                self._actors = ActorTable(address)
            except ConnectionError:  # still starting, or already ending
                return []
        return self._actors.dead()

    def _dead_engines(self, tree: list) -> list[str]:
        """vLLM's engine is a process of its own below its Ray actor, so Ray does not know when it dies."""
        now = {p.pid: line[0] for p in tree if (line := processes.command_line(p)) and line[0].startswith("VLLM::")}
        gone = [f"{title} (process {pid})" for pid, title in self._engines.items() if pid not in now]
        self._engines = now
        return gone
