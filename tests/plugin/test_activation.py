# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Every way in which verl loads the plugin, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

REGISTERED = """
from verl.trainer.ppo.core_algos import get_adv_estimator_fn
from verl.trainer.ppo.utils import need_reference_policy
from verl.trainer.ppo.v1.trainer_base import PPOTrainer
print(get_adv_estimator_fn("ep_grpo").__module__, hasattr(need_reference_policy, "__wrapped__"),
      hasattr(PPOTrainer._compute_advantage, "__wrapped__"))
"""
ALL_THERE = "epgrpo_verl.plugin.estimator True True"


def run(code: str, **env: str) -> subprocess.CompletedProcess:
    """Run Python code in a new process, with ``env`` added to the environment."""
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **env}, capture_output=True, text=True, timeout=300, check=False
    )


def last_line(code: str, **env: str) -> str:
    done = run(code, **env)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


@pytest.mark.parametrize(
    "env",
    [
        {},
        {"VERL_USE_EXTERNAL_PLUGINS": "epgrpo_verl"},
        {"VERL_USE_EXTERNAL_PLUGINS": "none", "VERL_USE_EXTERNAL_MODULES": "epgrpo_verl"},
        {"VERL_USE_EXTERNAL_MODULES": "epgrpo_verl"},
    ],
    ids=["entry point", "entry point by name", "external module", "both"],
)
def test_verl_loads_the_plugin(env):
    assert last_line(REGISTERED, **env) == ALL_THERE


def test_without_the_plugin_verl_is_untouched():
    code = REGISTERED.replace('get_adv_estimator_fn("ep_grpo").__module__', '"none"')
    assert last_line(code, VERL_USE_EXTERNAL_PLUGINS="none") == "none False False"


def test_importing_the_package_first_and_loading_twice_is_harmless():
    code = "import epgrpo_verl, importlib\nimport epgrpo_verl.plugin.entry as entry\n" + REGISTERED
    code += "importlib.reload(entry)\nentry.load()\n" + REGISTERED
    assert last_line(code, VERL_USE_EXTERNAL_MODULES="epgrpo_verl") == ALL_THERE


def test_loading_after_the_trainer_was_imported_still_hooks_it():
    code = """
import verl.trainer.main_ppo as main_ppo, verl.trainer.ppo.v1.utils as utils, verl.trainer.ppo.v1.trainer_base as base
assert not hasattr(main_ppo.need_reference_policy, "__wrapped__")
import epgrpo_verl.plugin.entry
print(*[hasattr(f, "__wrapped__") for f in (main_ppo.need_reference_policy, base.need_reference_policy,
                                            utils.compute_advantage, base.PPOTrainer._compute_advantage)])
"""
    assert last_line(code, VERL_USE_EXTERNAL_PLUGINS="none") == "True True True True"


def test_importing_the_package_does_not_import_verl_ray_or_torch():
    code = "import sys, epgrpo_verl\nprint([m for m in ('verl', 'ray', 'torch', 'hydra') if m in sys.modules])"
    assert last_line(code) == "[]"


def test_a_plugin_that_cannot_load_says_so_and_its_estimator_raises_the_cause():
    code = """
import sys
sys.modules["wrapt"] = None  # as if the package were not installed
import verl
from verl.trainer.ppo.core_algos import get_adv_estimator_fn
get_adv_estimator_fn("ep_grpo")(token_level_rewards=None)
"""
    done = run(code)
    assert done.returncode == 1
    assert "epgrpo_verl could not be loaded" in done.stderr.splitlines()[0]
    assert "import of wrapt halted" in done.stderr.splitlines()[-1] + done.stderr.splitlines()[-2]


@pytest.mark.parametrize(
    ("version", "words"),
    [("0.8.0", "ep_grpo needs verl >= 0.9.0; verl 0.8.0 is installed"), ("0.11.0", "was not tested with verl 0.11.0")],
)
def test_other_versions_of_verl_stop_or_warn(version, words):
    code = f"""
import verl
verl.__version__ = "{version}"
from omegaconf import OmegaConf
from verl.trainer.ppo.utils import need_reference_policy
need_reference_policy(OmegaConf.create({{"algorithm": {{"adv_estimator": "ep_grpo"}}, "actor_rollout_ref": {{"actor": {{
    "use_kl_loss": False}}}}}}))
"""
    done = run(code)
    assert words in done.stderr
    assert (done.returncode == 0) == (version == "0.11.0")


def test_a_function_of_verl_that_changed_stops_ep_grpo_alone():
    code = """
import verl, verl.trainer.ppo.ray_trainer as ray_trainer
ray_trainer.compute_advantage = lambda batch: batch
import epgrpo_verl.plugin.entry
from omegaconf import OmegaConf
from verl.trainer.ppo.utils import need_reference_policy
config = OmegaConf.create({"algorithm": {"adv_estimator": "grpo"}, "actor_rollout_ref": {"actor": {"use_kl_loss": 0}}})
print(need_reference_policy(config))
config.algorithm.adv_estimator = "ep_grpo"
need_reference_policy(config)
"""
    done = run(code, VERL_USE_EXTERNAL_PLUGINS="none")
    assert done.stdout.strip().endswith("0")
    assert "compute_advantage no longer takes data, adv_estimator, config" in done.stderr.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["entry point", "external module"])
def test_ray_workers_have_the_estimator(way):
    env = {"VERL_USE_EXTERNAL_PLUGINS": "none", "VERL_USE_EXTERNAL_MODULES": "epgrpo_verl"} if way != "entry point" else {}
    code = f"""
import ray
ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)

@ray.remote
def registered():
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn
    return get_adv_estimator_fn("ep_grpo").__module__

print(ray.get(registered.remote()))
ray.shutdown()
"""
    assert last_line(code, **env) == "epgrpo_verl.plugin.estimator"
