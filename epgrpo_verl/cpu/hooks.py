# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Register the CPU backend in verl's registries.

verl loads plugins inside ``verl/__init__``, when almost none of its modules can be imported yet. So each registration
is a post-import hook on the verl module that owns the registry: it runs right after that module was imported, and
before the module that imported it goes on.
"""

import logging
import os
from importlib import import_module
from types import ModuleType

import wrapt

from . import vllm_metadata

logger = logging.getLogger(__name__)

_active = False


def activate() -> None:
    """Make verl in this process, and in the Ray workers that it starts, run on the CPU. May be called repeatedly.

    Sets ``VERL_PLATFORM=cpu`` for verl and, since Ray's workers inherit the environment, for the workers.

    Raises:
        RuntimeError: ``VERL_PLATFORM`` names another platform, or verl has already settled on another one.
    """
    global _active
    if _active:
        return
    chosen = os.environ.get("VERL_PLATFORM", "").strip().lower() or "cpu"
    if chosen != "cpu":
        raise RuntimeError(f"the CPU backend needs VERL_PLATFORM=cpu (or unset), but VERL_PLATFORM={chosen}")
    os.environ["VERL_PLATFORM"] = "cpu"
    vllm_metadata.install()
    for target, hook in _HOOKS.items():
        wrapt.register_post_import_hook(hook, target)
    _active = True
    logger.info("verl runs on the CPU in this process (epgrpo_verl.cpu); EPGRPO_CPU=0 keeps verl's default")


def _register_platform(platform_manager: ModuleType) -> None:
    current = platform_manager._current_platform
    if current is not None and current.device_name != "cpu":
        raise RuntimeError(
            f"verl already runs on platform {current.device_name!r}: set VERL_PLATFORM=cpu before verl is imported"
        )
    import_module("epgrpo_verl.cpu.platform")


def _use_plain_gloo(distributed: ModuleType) -> None:
    # verl asks for "cpu:gloo,{device}:{backend}". With device cpu that names cpu twice, which torch refuses.
    @wrapt.patch_function_wrapper(distributed, "initialize_global_process_group_ray")
    def _(wrapped, instance, args, kwargs):
        if len(args) < 2 and kwargs.get("backend") is None:
            kwargs["backend"] = "cpu:gloo"
        return wrapped(*args, **kwargs)


def _register_adapter(base: ModuleType) -> None:
    base._ROLLOUT_REGISTRY[("hf", "async")] = "epgrpo_verl.cpu.hf_rollout.HFServerAdapter"


def _register_replica(replica: ModuleType) -> None:
    replica.RolloutReplicaRegistry.register("hf", lambda: import_module("epgrpo_verl.cpu.hf_rollout").HFReplica)


def _register_engine(_: ModuleType) -> None:
    import_module("epgrpo_verl.cpu.engine")


def _register_checkpoint_engine(_: ModuleType) -> None:
    import_module("epgrpo_verl.cpu.checkpoint")


def _poll_faster(replay_buffer: ModuleType) -> None:
    # The trainer asks TransferQueue every 2.0 s whether the rollouts are complete, far longer than the step of a tiny
    # model takes.
    @wrapt.patch_function_wrapper(replay_buffer, "ReplayBuffer.__init__")
    def _(wrapped, instance, args, kwargs):
        wrapped(*args, **kwargs)
        instance.poll_interval = min(instance.poll_interval, POLL_INTERVAL_S)


POLL_INTERVAL_S = 0.02
"""Seconds between two looks of the trainer at TransferQueue while it waits for rollouts."""

_HOOKS = {
    "verl.plugin.platform.platform_manager": _register_platform,
    "verl.utils.distributed": _use_plain_gloo,
    "verl.workers.rollout.base": _register_adapter,
    "verl.workers.rollout.replica": _register_replica,
    "verl.workers.engine.fsdp.transformer_impl": _register_engine,
    "verl.checkpoint_engine.base": _register_checkpoint_engine,
    "verl.trainer.ppo.v1.replay_buffer": _poll_faster,
}
