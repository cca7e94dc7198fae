# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The launcher on small commands that misbehave as Ray and vLLM do."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from epgrpo_verl.cpu import launch, watch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted with a Linux system call")

LAUNCH = """
import os, sys
from epgrpo_verl.cpu import launch
launch.GRACE_S = 4.0; launch.TELL_S = 1.0
sys.exit(launch.Run([sys.executable, "-c", sys.argv[1]], dict(os.environ)).run())
"""

DAEMON = """
import os, sys, time, signal
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory
resource_tracker.register = lambda *_: None
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    memory = SharedMemory(create=True, size=64)
    os.write(1, f"daemon {os.getpid()} {memory.name}\\n".encode())
    time.sleep(1000)
"""


@pytest.fixture
def start():
    started = []

    def start(code: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def daemon(process: subprocess.Popen) -> tuple[int, Path]:
    word, pid, name = process.stdout.readline().split()
    assert word == "daemon"
    return int(pid), Path("/dev/shm") / name


@pytest.mark.parametrize("code", [0, 3])
def test_the_exit_code_is_passed_on_and_a_daemon_with_shared_memory_is_removed(start, code):
    process = start(DAEMON + f"time.sleep(3); os._exit({code})")
    pid, memory = daemon(process)
    assert memory.exists()
    assert process.wait(60) == code
    assert not psutil.pid_exists(pid)
    assert not memory.exists()


def test_what_others_have_in_shared_memory_stays(start):
    path = Path("/dev/shm") / f"psm_{os.getpid()}"
    try:
        path.touch()
        process = start(f"import time; file = open({str(path)!r}); time.sleep(3)")
        assert process.wait(60) == 0
        assert path.exists()
    finally:
        path.unlink()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_command_that_ignores_it(start, number):
    ignore = "signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    process = start(DAEMON + ignore + "os.write(1, b'ready %d' % os.getpid() + bytes([10])); time.sleep(1000)")
    lines = sorted(process.stdout.readline().split() for _ in range(2))
    pids = [int(line[1]) for line in lines]
    process.send_signal(number)
    assert process.wait(60) == 128 + number
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert not (Path("/dev/shm") / lines[0][2]).exists()
    message = process.stderr.read()
    assert number.name in message
    assert "resume_mode=auto" in message


def test_a_command_ended_by_a_signal_is_named(start):
    process = start("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert process.wait(60) == 128 + signal.SIGSEGV
    assert "SIGSEGV" in process.stderr.read()


def test_a_dead_vllm_engine_ends_a_command_that_goes_on(start):
    engine = "import os, sys; os.execv(sys.executable, ['VLLM::EngineCore', '-c', 'import time; time.sleep(1000)'])"
    process = start(
        "import subprocess, sys, time\n"
        f"p = subprocess.Popen([sys.executable, '-c', {engine!r}])\n"
        "print(p.pid, flush=True)\n"
        "p.wait()\n"
        "time.sleep(1000)"
    )
    pid = int(process.stdout.readline())
    time.sleep(launch.POLL_S * 3)  # the launcher has to see it alive first
    os.kill(pid, signal.SIGKILL)
    assert process.wait(60) == launch.FAILED
    assert f"VLLM::EngineCore (process {pid})" in process.stderr.read()


def test_the_temporary_folder_leaves_room_for_rays_sockets(monkeypatch):
    monkeypatch.setattr(launch.tempfile, "gettempdir", lambda: "/tmp/" + "long" * 20)
    with launch._temporary_folder() as folder:
        assert folder.is_dir()
        assert len(str(folder)) + launch._RAY_PATH <= launch._SOCKET_PATH_LIMIT
        (folder / "file").touch()
    assert not folder.exists()


def test_a_ray_that_does_not_answer_is_told_of_once(monkeypatch):
    monkeypatch.setattr(watch, "_AGAIN_S", 0.1)
    told = []
    raylet = subprocess.Popen(
        ["bin/raylet", "-c", "import time; time.sleep(1000)", "--gcs-address=nowhere"], executable=sys.executable
    )
    try:
        looker = watch.Watch(dict(os.environ), told.append)
        give_up = time.monotonic() + 120
        while (not told or looker._attempts < watch._ATTEMPTS + 2) and time.monotonic() < give_up:
            looker.look([psutil.Process(raylet.pid)])
            time.sleep(0.1)
    finally:
        raylet.kill()
        raylet.wait()
    (line,) = told
    assert "Ray at nowhere does not say which actors died" in line
    assert "Error" in line


# The child looks like its parent at first, as a worker does that Ray's raylet has just forked.
FORKING = """
import os, sys, time
if os.fork() == 0:
    sys.stdin.readline()
    os.execlp("sleep", "sleep", "1000")
print(flush=True)
time.sleep(1000)
"""


def test_a_forked_worker_that_starts_its_program_is_not_taken_for_a_dead_raylet(monkeypatch):
    monkeypatch.setattr(watch, "GONE_S", 0.2)
    told = []
    raylet = subprocess.Popen(
        ["bin/raylet", "-c", FORKING], executable=sys.executable, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    process = psutil.Process(raylet.pid)
    raylet.stdout.readline()
    (child,) = process.children()
    try:
        looker = watch.Watch(dict(os.environ), told.append)
        assert child.cmdline() == process.cmdline()
        assert looker.look([process, child]) == []
        raylet.stdin.write(b"\n")
        raylet.stdin.flush()
        give_up = time.monotonic() + 60
        while child.name() != "sleep" and time.monotonic() < give_up:
            time.sleep(0.05)
        assert child.name() == "sleep"
        time.sleep(0.4)
        assert looker.look([process, child]) == []
        raylet.kill()
        raylet.wait()
        time.sleep(0.4)
        assert looker.look([child]) == [f"Ray's raylet (process {raylet.pid})"]
    finally:
        raylet.kill()
        child.kill()
        raylet.wait()
