# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The same batches through patched verl, through the plugin's hooks on stock verl, and through the slow reference.

scripts/check_patches.sh runs this file, with the patched verl first on the path. The hooks run in their own process.
"""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from slow_reference import slow_ep_grpo
from verl.protocol import DataProto
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.ray_trainer import compute_advantage

ROOT = str(Path(__file__).parents[2])
SWITCHES = [
    dict(zip(("gate", "progress", "zero_variance"), values, strict=True))
    for values in itertools.product([True, False], repeat=3)
]
SETTINGS = [
    *SWITCHES,
    {"gamma": 0.5, "lam": 1.0, "eta": 0.7, "num_buckets": 3},
    {"num_buckets": 64, "reward_threshold": -0.25, "progress_eps": 0.01},
]
TENSORS = ("token_level_rewards", "response_mask", "entropy", "old_log_probs", "ref_log_prob")
STOCK = """
import sys, torch
from omegaconf import OmegaConf
from verl.protocol import DataProto
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.ray_trainer import compute_advantage
assert not hasattr(core_algos, "adv_estimator_batch_fields"), "this verl is patched"
assert hasattr(compute_advantage, "__wrapped__"), "the plugin's hook is not installed"
cases = torch.load(sys.argv[1], weights_only=False)
results = [
    compute_advantage(DataProto.from_dict(tensors, {"uid": uid}), "ep_grpo", config=OmegaConf.create(config))
    for tensors, uid, config in cases
]
torch.save([result.batch["advantages"] for result in results], sys.argv[1])
"""

WITH_PLUGIN = """
import importlib
from epgrpo_verl.plugin import hooks, symbols
from verl.trainer.ppo import core_algos
assert hooks.native()
for symbol in symbols.SYMBOLS:
    module = importlib.import_module(symbol.module)
    value = symbols.resolve(module, symbol.attribute)[2]
    assert not hooks.is_hook(value), symbol.path
assert hooks.unhooked() == []
assert core_algos.get_adv_estimator_fn("ep_grpo").__module__ == core_algos.__name__
assert core_algos.get_policy_loss_fn("ep_grpo").__module__ == core_algos.__name__
"""


def algorithm_config(norm: bool, settings: dict) -> dict:
    return {"adv_estimator": "ep_grpo", "norm_adv_by_std_in_grpo": norm, "ep_grpo": settings}


def run_with_plugin(code: str, *args: str, path: str, cwd: Path) -> None:
    """Run code in a process that loads the plugin, with this path in front."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("VERL_USE_EXTERNAL")}
    env |= {"PYTHONPATH": path, "VERL_USE_EXTERNAL_MODULES": "epgrpo_verl"}
    subprocess.run([sys.executable, "-c", code, *args], env=env, cwd=cwd, check=True)


@pytest.fixture
def cases(make_batch) -> list:
    """(tensors, uid, config) for every setting and several batches."""
    rewards = [(0.0, 1.0), (-1.0, 1.0), (0.0, 0.25, 0.5, 1.0), (0.1, 0.2, 0.3)]
    out = []
    for seed, (settings, norm) in enumerate(itertools.product(SETTINGS, [True, False])):
        batch = make_batch(seed, rollouts=1 + seed % 5, rewards=rewards[seed % 4])
        tensors = {name: getattr(batch, name) for name in TENSORS}
        # Both log-probs below 0, as the plugin checks; their difference stays.
        for name in ("old_log_probs", "ref_log_prob"):
            tensors[name] = tensors[name] - 1
        out.append((tensors, np.array(batch.index, dtype=object), algorithm_config(norm, settings)))
    return out


def native(tensors: dict, uid: np.ndarray, config: dict) -> DataProto:
    data = DataProto.from_dict({name: value.clone() for name, value in tensors.items()}, {"uid": uid})
    return compute_advantage(data, "ep_grpo", config=OmegaConf.create(config))


def slow(tensors: dict, uid: np.ndarray, config: dict) -> dict:
    norm = config["norm_adv_by_std_in_grpo"]
    return slow_ep_grpo(*(tensors[name] for name in TENSORS), uid, norm_adv_by_std=norm, **config["ep_grpo"])


def test_the_estimator_under_test_is_the_one_of_the_patch():
    assert core_algos.get_adv_estimator_fn("ep_grpo").__module__ == "verl.trainer.ppo.core_algos"
    assert "epgrpo_verl" not in sys.modules


def test_patch_equals_slow_reference(cases):
    for case in cases:
        result, expected = native(*case), slow(*case)
        np.testing.assert_allclose(result.batch["advantages"], expected["advantages"], rtol=2e-6, atol=2e-6)
        if case[2]["ep_grpo"].get("progress", True):
            slope = expected["progress_slope"]
            atol = 2e-6 * max(1.0, np.abs(slope).max())
            np.testing.assert_allclose(result.batch["progress_slope"], slope, rtol=2e-6, atol=atol)


def test_patch_equals_the_hooks_on_stock_verl(cases, tmp_path):
    path = tmp_path / "cases.pt"
    torch.save(cases, path)
    run_with_plugin(STOCK, str(path), path=ROOT, cwd=tmp_path)
    for case, hooks in zip(cases, torch.load(path), strict=True):
        torch.testing.assert_close(native(*case).batch["advantages"], hooks, rtol=2e-6, atol=2e-6)


def test_on_patched_verl_the_plugin_installs_no_hook(tmp_path):
    run_with_plugin(WITH_PLUGIN, path=os.pathsep.join([os.environ["PYTHONPATH"], ROOT]), cwd=tmp_path)
