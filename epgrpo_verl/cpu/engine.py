# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""verl's FSDP engine for device "cpu". Imported by a hook once verl's FSDP engine is there."""

import torch
from verl.workers.engine.base import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead, FSDPEngineWithValueHead


class _CPUOffloadNotNeeded:
    """Mixin: build the FSDP2 module without CPU offload, which pins memory and so needs an accelerator."""

    def _build_fsdp_module(self, module: torch.nn.Module) -> torch.nn.Module:
        config = self.engine_config
        if config.strategy != "fsdp2":
            raise ValueError(
                f"strategy={config.strategy} cannot run on the CPU: set actor_rollout_ref.actor.strategy=fsdp2, "
                "actor_rollout_ref.ref.strategy=fsdp2 and, with a critic, critic.strategy=fsdp2"
            )
        if config.offload_policy:
            raise ValueError("fsdp_config.offload_policy=True needs an accelerator: set it to False on the CPU")
        # A forward-only module (the reference) is always offloaded by verl. Its config is frozen, hence object.
        forward_only = config.forward_only
        object.__setattr__(config, "forward_only", False)
        try:
            return super()._build_fsdp_module(module)
        finally:
            object.__setattr__(config, "forward_only", forward_only)


@EngineRegistry.register(model_type="language_model", backend=["fsdp", "fsdp2"], device="cpu")
class CPUFSDPEngineWithLMHead(_CPUOffloadNotNeeded, FSDPEngineWithLMHead):
    """Actor and reference on the CPU: FSDP2 on gloo. ``fsdp`` is registered only to say what to set instead."""


@EngineRegistry.register(model_type="value_model", backend=["fsdp", "fsdp2"], device="cpu")
class CPUFSDPEngineWithValueHead(_CPUOffloadNotNeeded, FSDPEngineWithValueHead):
    """Critic on the CPU: FSDP2 on gloo."""
