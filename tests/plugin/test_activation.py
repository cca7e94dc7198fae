# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Every way in which verl loads the plugin, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest
from fresh_process import run

HOOKED = """
import verl.trainer.distillation.losses as distillation, verl.trainer.main_ppo as main_ppo
import verl.experimental.separation.ray_trainer as separation
import verl.trainer.ppo.ray_trainer as ray_trainer, verl.trainer.ppo.v1.trainer_base as base
import verl.trainer.ppo.v1.utils as utils, verl.workers.engine_workers as workers
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, POLICY_LOSS_REGISTRY
hooked = [hasattr(function, "__wrapped__") for function in (
    main_ppo.need_reference_policy, base.need_reference_policy, ray_trainer.need_reference_policy,
    ray_trainer.compute_advantage, utils.compute_advantage, separation.compute_advantage,
    base.PPOTrainer._compute_advantage, ray_trainer.RayPPOTrainer._compute_old_log_prob,
    ray_trainer.compute_data_metrics, base.compute_data_metrics, separation.compute_data_metrics,
    workers.ppo_loss, distillation.ppo_loss)]
twice = [hasattr(getattr(f, "__wrapped__", None), "__wrapped__") for f in (main_ppo.need_reference_policy,
    ray_trainer.compute_advantage, base.PPOTrainer._compute_advantage, workers.ppo_loss)]
registered = [name in names for name, names in (("ep_grpo", ADV_ESTIMATOR_REGISTRY), ("ep_grpo", POLICY_LOSS_REGISTRY),
    ("ep_grpo/gspo", POLICY_LOSS_REGISTRY), ("ep_grpo/vanilla", POLICY_LOSS_REGISTRY))]
print("all" if all(hooked + registered) else "none" if not any(hooked + registered) else (hooked, registered),
      "twice" if any(twice) else "once")
"""
NEED_REFERENCE = """
from omegaconf import OmegaConf
from verl.trainer.ppo.utils import need_reference_policy

def needed(estimator, rollout=None, **trainer):
    return need_reference_policy(OmegaConf.create({"algorithm": {"adv_estimator": estimator}, "trainer": trainer,
        "rollout": rollout, "actor_rollout_ref": {"actor": {"use_kl_loss": False}}}))
"""


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
    assert run(HOOKED, **env).last_line == "all once"


def test_without_the_plugin_verl_is_untouched():
    assert run(HOOKED, VERL_USE_EXTERNAL_PLUGINS="none").last_line == "none once"


def test_importing_the_package_first_and_loading_twice_is_harmless():
    code = "import epgrpo_verl, importlib\nimport epgrpo_verl.plugin.entry as entry\n" + HOOKED
    code += "importlib.reload(entry)\nentry.load()\n" + HOOKED
    assert run(code, VERL_USE_EXTERNAL_MODULES="epgrpo_verl").last_line == "all once"


def test_loading_after_the_trainer_was_imported_still_hooks_every_name():
    code = HOOKED + "import epgrpo_verl.plugin.entry\n" + HOOKED
    done = run(code, VERL_USE_EXTERNAL_PLUGINS="none")
    assert done.last_line == "all once"
    assert "none once" in done.out


def test_importing_the_package_does_not_import_verl_ray_or_torch():
    code = "import sys, epgrpo_verl\nprint([m for m in ('verl', 'ray', 'torch', 'hydra') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_a_plugin_that_cannot_load_says_so_and_its_estimator_raises_the_cause():
    done = run(
        """
import sys
sys.modules["wrapt"] = None  # as if the package were not installed
import verl
from verl.trainer.ppo.core_algos import get_adv_estimator_fn
get_adv_estimator_fn("ep_grpo")(token_level_rewards=None)
"""
    )
    assert done.code == 1
    assert "epgrpo_verl could not be loaded, adv_estimator=ep_grpo will not work" in done.err
    assert "EPGRPOPluginError: epgrpo_verl could not be loaded" in done.err.splitlines()[-1]
    assert "import of wrapt halted" in done.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("version", "words"),
    [("0.8.0", "ep_grpo needs verl >= 0.9.0; verl 0.8.0 is installed"), ("0.11.0", "was not tested with verl 0.11.0")],
)
def test_other_versions_of_verl_stop_or_warn(version, words):
    done = run(f"import verl\nverl.__version__ = '{version}'\n" + NEED_REFERENCE + "print(needed('ep_grpo'))")
    assert words in done.err
    assert (done.code == 0) == (version == "0.11.0")


TOO_OLD = "import verl\nverl.__version__ = '0.8.0'\nimport epgrpo_verl.plugin.entry\n"


@pytest.mark.parametrize(
    "use",
    [
        NEED_REFERENCE + "print(needed('grpo'))\nneeded('ep_grpo')",
        NEED_REFERENCE + "print(needed('grpo'))\nneeded('ep_grpo', use_v1=False)",
        "from verl.trainer.ppo.core_algos import get_adv_estimator_fn\nprint(get_adv_estimator_fn('grpo') is None)\n"
        "get_adv_estimator_fn('ep_grpo')(token_level_rewards=None)",
    ],
    ids=["v1", "v0", "a trainer that asks for no reference"],
)
def test_a_verl_that_is_too_old_is_named_at_load_and_at_first_use(use):
    done = run(TOO_OLD + "print('loaded', flush=True)\n" + use, VERL_USE_EXTERNAL_PLUGINS="none")
    assert done.out.split() == ["loaded", "False"], done.err
    assert "epgrpo_verl could not be loaded, adv_estimator=ep_grpo will not work" in done.err
    assert done.code == 1
    assert done.err.splitlines()[-1].endswith(
        "ep_grpo needs verl >= 0.9.0; verl 0.8.0 is installed. Run: pip install 'verl>=0.9.0'"
    )


def test_a_verl_that_is_too_old_is_hooked_in_one_place_only():
    code = TOO_OLD + HOOKED + "print(hooked[:3], any(hooked[3:]))"
    assert run(code, VERL_USE_EXTERNAL_PLUGINS="none").last_line == "[True, True, True] False"


NATIVE = """
import verl.trainer.ppo.core_algos as core_algos
core_algos.compute_ep_grpo_outcome_advantage = core_algos.compute_grpo_outcome_advantage  # as if verl had it
core_algos.register_adv_est("ep_grpo")(core_algos.compute_ep_grpo_outcome_advantage)
import epgrpo_verl.plugin.entry
"""


def test_a_verl_that_has_ep_grpo_itself_misses_no_hook():
    code = NATIVE + HOOKED + "from epgrpo_verl.plugin import hooks\nprint(any(hooked), hooks.unhooked())"
    assert run(code, VERL_USE_EXTERNAL_PLUGINS="none").last_line == "False []"


def test_a_function_in_use_without_its_hook_is_listed():
    code = HOOKED + "from epgrpo_verl.plugin import hooks\nprint(hooks.unhooked())\n"
    code += "base.compute_data_metrics = base.compute_data_metrics.__wrapped__\nprint(hooks.unhooked())"
    done = run(code)
    assert done.last_line == "['verl.trainer.ppo.v1.trainer_base.compute_data_metrics']"
    assert done.out.splitlines()[-2] == "[]"


@pytest.mark.parametrize(
    ("module", "break_it", "problem", "stops", "works"),
    [
        (
            "verl.trainer.ppo.ray_trainer",
            "module.compute_advantage = lambda batch: batch",
            "compute_advantage no longer takes data, adv_estimator, config",
            "needed('ep_grpo')",
            "needed('grpo')",
        ),
        (
            "verl.trainer.ppo.v1.trainer_base",
            "del module.PPOTrainer._compute_advantage",
            "PPOTrainer._compute_advantage is gone",
            "needed('ep_grpo', use_v1=True)",
            "needed('ep_grpo', use_v1=False)",
        ),
        (
            "verl.trainer.ppo.ray_trainer",
            "del module.RayPPOTrainer._compute_old_log_prob",
            "RayPPOTrainer._compute_old_log_prob is gone",
            "needed('ep_grpo', use_v1=False)",
            "needed('ep_grpo', use_v1=True)",
        ),
        (
            "verl.trainer.ppo.ray_trainer",
            "del module.RayPPOTrainer._compute_old_log_prob",
            "RayPPOTrainer._compute_old_log_prob is gone",
            "needed('ep_grpo', rollout={'nnodes': 1})",
            "needed('ep_grpo')",
        ),
    ],
    ids=["all", "v1", "v0", "one_step_off"],
)
def test_a_function_of_verl_that_changed_stops_only_what_needs_it(module, break_it, problem, stops, works):
    code = f"import verl, {module} as module\n{break_it}\nimport epgrpo_verl.plugin.entry\n{NEED_REFERENCE}"
    code += f"print({works})\n{stops}"
    done = run(code, VERL_USE_EXTERNAL_PLUGINS="none")
    assert done.out.strip().splitlines()[-1] in ("True", "False"), done.err
    assert done.code == 1
    message = done.err.splitlines()[-1]
    assert problem in message
    assert "does not fit the installed verl" in message and "Still working: other estimators" in message
    assert ("trainer.use_v1=False" in message.split("Still working")[1]) == ("v1" in module)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("way", ["entry point", "external module"])
def test_ray_workers_have_the_estimator(way):
    env = {"VERL_USE_EXTERNAL_PLUGINS": "none", "VERL_USE_EXTERNAL_MODULES": "epgrpo_verl"}
    code = """
import ray
ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)

@ray.remote
def registered():
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn
    return get_adv_estimator_fn("ep_grpo").__module__

print(ray.get(registered.remote()))
ray.shutdown()
"""
    done = run(code, **({} if way == "entry point" else env))
    assert done.last_line == "epgrpo_verl.plugin.estimator"
