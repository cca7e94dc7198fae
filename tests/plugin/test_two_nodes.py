# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""A Ray cluster of two nodes, started beforehand and told nothing of the plugin, which is only installed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from real_run import train

pytestmark = [pytest.mark.slow, pytest.mark.nightly]
NODES = ("127.0.0.1", "127.0.0.2")
RAY = [sys.executable, "-c", "import sys; from ray.scripts.scripts import main; sys.exit(main())"]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((NODES[0], 0))
        return probe.getsockname()[1]


@contextmanager
def ray_node(folder: Path, ip: str, *options: str, env: dict[str, str]) -> Iterator[None]:
    """One raylet with a logical GPU, which ends with the block."""
    command = [*RAY, "start", "--block", "--num-cpus=8", "--num-gpus=1", f"--node-ip-address={ip}", *options]
    command += ["--object-store-memory=300000000"]
    log = folder / f"{ip}.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env=env, cwd=folder, start_new_session=True
        )
    try:
        deadline = time.monotonic() + 120
        while "Ray runtime started" not in log.read_text():
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def cluster(tmp_path_factory) -> Iterator[str]:
    """Address of a cluster of two nodes whose environment names neither verl nor the plugin."""
    folder = tmp_path_factory.mktemp("ray")
    env = {name: value for name, value in os.environ.items() if not name.startswith(("VERL_", "EPGRPO_", "PYTHONPATH"))}
    env |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
    port = _free_port()
    address = f"{NODES[0]}:{port}"
    head = ("--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir=/tmp/epg-{os.getpid()}")
    with ray_node(folder, NODES[0], *head, env=env), ray_node(folder, NODES[1], f"--address={address}", env=env):
        yield address


def test_two_nodes_train_with_the_plugin_only_installed(assets: Path, tmp_path: Path, cluster: str):
    run = train(
        assets,
        tmp_path,
        "trainer.nnodes=2",
        "trainer.n_gpus_per_node=1",
        "actor_rollout_ref.actor.policy_loss.loss_mode=ep_grpo",
        "actor_rollout_ref.actor.ppo_mini_batch_size=2",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4",
        env={"RAY_AUTH_MODE": "disabled"},
        cluster=cluster,
    )
    for step in (1, 2):
        assert run.metrics[step]["ep_grpo/gate/mean"] > 0
    assert run.metrics[1]["ep_grpo/log_ratio/abs_max"] < 1e-5
    assert run.metrics[2]["ep_grpo/log_ratio/abs_max"] > 1e-4
    # The loss ran with the slope in the workers of both nodes: one without the plugin does not know the loss mode.
    assert run.metrics[2]["actor/ep_grpo/refresh_abs_mean"] > 0
    assert f"ip={NODES[1]}" in run.log, "everything ran on one node"
