# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Registration in verl, each case in a process of its own since verl's registries are global."""

import os
import subprocess
import sys

import pytest

CHECK = """
from verl.plugin.platform import get_platform
from verl.utils.device import get_device_name, get_torch_device
import torch
assert get_device_name() == "cpu", get_device_name()
assert torch.zeros(1).to(get_platform().current_device()).device.type == "cpu"
assert get_torch_device().mem_get_info()[0] > 0
from verl.workers.rollout.base import get_rollout_class
assert get_rollout_class("hf").__name__ == "HFServerAdapter"
from verl.workers.rollout.replica import get_rollout_replica_class
assert get_rollout_replica_class("hf").__name__ == "HFReplica"
import verl.workers.engine_workers
from verl.workers.engine.base import EngineRegistry
for strategy in ("fsdp", "fsdp2"):
    assert EngineRegistry.get_engine_cls("language_model", strategy).__name__ == "CPUFSDPEngineWithLMHead"
from verl.checkpoint_engine.base import CheckpointEngineRegistry
assert CheckpointEngineRegistry.get("tcpstore").__name__ == "TCPStoreCheckpointEngine"
from omegaconf import OmegaConf
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
buffer = ReplayBuffer("sync", OmegaConf.create(), None, "drop", OmegaConf.create())
assert buffer.poll_interval < 0.1, buffer.poll_interval
print("registered")
"""


def python(code: str, **environment: str) -> subprocess.CompletedProcess:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("VERL_", "EPGRPO_", "RAY_"))}
    return subprocess.run([sys.executable, "-c", code], env={**kept, **environment}, text=True, capture_output=True)


@pytest.mark.parametrize(
    ("first", "environment"),
    [
        pytest.param("import verl", {"VERL_PLATFORM": "cpu"}, id="entry point"),
        pytest.param(
            "import verl",
            {
                "EPGRPO_CPU": "1",
                "VERL_USE_EXTERNAL_PLUGINS": "none",
                "VERL_USE_EXTERNAL_MODULES": "epgrpo_verl.plugin.entry",
            },
            id="external module",
        ),
        pytest.param(
            "import epgrpo_verl.cpu as c; c.activate(); c.activate(); import verl; c.activate()",
            {"VERL_USE_EXTERNAL_PLUGINS": "none"},
            id="by hand before verl",
        ),
        pytest.param("import epgrpo_verl.cpu.hf_server", {"VERL_PLATFORM": "cpu"}, id="server unpickled before verl"),
    ],
)
def test_everything_is_registered(first, environment):
    result = python(first + CHECK, **environment)
    assert result.returncode == 0, result.stderr[-3000:]
    assert "registered" in result.stdout


def test_verl_is_left_alone_when_the_backend_is_not_wanted():
    code = """
import os, verl
assert "VERL_PLATFORM" not in os.environ
from verl.plugin.platform import PlatformRegistry
from verl.workers.rollout.replica import RolloutReplicaRegistry
import verl.workers.engine_workers
from verl.workers.engine.base import EngineRegistry
print("cpu" in PlatformRegistry.registered_names(), "hf" in RolloutReplicaRegistry._registry,
      "cpu" in EngineRegistry._engines["language_model"]["fsdp2"])
"""
    result = python(code, EPGRPO_CPU="0")
    assert result.returncode == 0, result.stderr[-3000:]
    assert result.stdout.split("\n")[-2] == "False False False"


def test_activating_after_verl_chose_another_platform_is_an_error():
    code = """
import verl
from verl.plugin.platform import get_platform
get_platform()
import epgrpo_verl.cpu as c
c.activate()
"""
    result = python(code, EPGRPO_CPU="0")
    assert result.returncode != 0
    assert "set VERL_PLATFORM=cpu before verl is imported" in result.stderr


def test_a_contradicting_platform_variable_is_an_error():
    result = python("import epgrpo_verl.cpu as c; c.activate()", VERL_PLATFORM="nvidia")
    assert "VERL_PLATFORM=nvidia" in result.stderr


def test_the_default_process_group_works_on_gloo_alone():
    code = """
import os, torch, verl
from verl.utils.distributed import initialize_global_process_group_ray
os.environ.update(DIST_INIT_METHOD="tcp://127.0.0.1:0")
initialize_global_process_group_ray()
x = torch.ones(2)
torch.distributed.all_reduce(x)
print(x.tolist(), torch.distributed.get_backend())
torch.distributed.destroy_process_group()
"""
    result = python(code, VERL_PLATFORM="cpu")
    assert "[1.0, 1.0]" in result.stdout, result.stderr[-3000:]
