# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What verl's trainer will ask of the actor and of the reference: entropy, log-probs, and at which temperature.

This is not read off the config but off verl: the trainer's own methods run up to the point where they hand the batch
to the workers, and what they hand over is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from omegaconf import DictConfig

from ..plugin import preflight
from .report import Check, failed, ok, warning

TEMPERATURE = "actor_rollout_ref.rollout.temperature"
REFERENCE_ON = ("actor_rollout_ref.actor.use_kl_loss=True", "actor_rollout_ref.actor.kl_loss_coef=0")


class _HandedOver(Exception):
    """The trainer's method has come to the workers, or to the data."""


@dataclass
class _Workers:
    """Stands where the trainer's worker groups are, notes the call that computes log-probs, and ends it there."""

    called: str | None = None
    request: dict[str, Any] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*args: Any, **kwargs: Any) -> None:
            if "log_prob" in name:
                self.called = name
                batch = args[0]
                self.request = dict(batch.extra_info) if isinstance(batch, _Batch) else _non_tensors(batch)
                raise _HandedOver

        return call


def _non_tensors(batch: Any) -> dict[str, Any]:
    """The settings that V0 puts beside the tensors of a TensorDict."""
    from verl.utils import tensordict_utils

    names = ("temperature", "calculate_entropy")
    return {name: tensordict_utils.get(batch, name) for name in names if name in batch.keys()}


@dataclass
class _Batch:
    """As much of a batch's description as verl's V1 methods touch before they hand it over."""

    extra_info: dict[str, Any] = field(default_factory=dict)

    @property
    def keys(self) -> Any:
        """What verl asks for to read the batch's data: it has gone on without asking the workers."""
        raise _HandedOver


def _v0_batch(config: DictConfig) -> Any:
    """One prompt of one token with a response of one token, as V0's training loop has it before the two passes."""
    import torch
    from verl import DataProto

    names = ("prompts", "responses", "response_mask")
    tensors = {name: torch.ones(1, 1, dtype=torch.long) for name in names}
    tensors |= {name: torch.ones(1, 2, dtype=torch.long) for name in ("input_ids", "attention_mask", "position_ids")}
    return DataProto.from_single_dict(tensors, meta_info={"temperature": preflight.select(config, TEMPERATURE)})


def requested(config: DictConfig, method: str) -> _Workers:
    """Run a method of the trainer that the config selects, up to the call of its workers.

    Args:
        config: A whole verl config.
        method: ``"_compute_old_log_prob"`` or ``"_compute_ref_log_prob"``.

    Returns:
        Which method of the workers was called, and with which settings.

    Raises:
        Exception: Whatever the method raises when verl has changed, or has no such trainer mode.
    """
    from verl.trainer.ppo.ray_trainer import RayPPOTrainer
    from verl.trainer.ppo.v1 import get_trainer_cls

    v1 = preflight.select(config, "trainer.use_v1", True)
    cls = get_trainer_cls(config.trainer.v1.trainer_mode) if v1 else RayPPOTrainer
    trainer, workers = cls.__new__(cls), _Workers()
    trainer.__dict__.update(
        config=config,
        actor_rollout_wg=workers,
        ref_policy_wg=workers,
        ref_in_actor=ref_in_actor(config),
        local_trigger_step=0,
    )
    try:
        getattr(cls, method)(trainer, *((_Batch(), {}) if v1 else (_v0_batch(config),)))
    except _HandedOver:
        pass
    return workers


def lora_rank(config: DictConfig) -> int:
    """The rank of the LoRA adapter that is trained; 0 without one."""
    rank = preflight.select(config, "actor_rollout_ref.model.lora.rank", 0)
    return rank if rank > 0 else preflight.select(config, "actor_rollout_ref.model.lora_rank", 0)


def ref_in_actor(config: DictConfig) -> bool:
    """Whether the reference is the actor with its LoRA adapter switched off, as verl decides it."""
    adapter = preflight.select(config, "actor_rollout_ref.model.lora_adapter_path")
    return lora_rank(config) > 0 or adapter is not None


def pass_checks(config: DictConfig) -> list[Check]:
    """Entropy, reference and temperature of a config that the rules have passed."""
    try:
        actor = requested(config, "_compute_old_log_prob")
        reference = requested(config, "_compute_ref_log_prob")
    except Exception as error:  # verl's own errors, or an attribute that a newer verl wants of a trainer
        text = f"verl's trainer could not be asked what it computes: {error!r}."
        modes = "trainer.v1.trainer_mode=sync" if isinstance(error, ValueError) else ""
        return [failed("trainer mode", str(error), modes) if modes else warning("entropy", text)]
    return [
        _entropy_check(actor),
        _reference_check(config, reference),
        _temperature_check(actor.request.get("temperature"), reference.request.get("temperature")),
    ]


def _entropy_check(actor: _Workers) -> Check:
    if actor.called is None:
        return failed(
            "entropy",
            "The trainer computes no old log-probs, so there is no token entropy.",
            "algorithm.rollout_correction.bypass_mode=False",
        )
    if not actor.request.get("calculate_entropy"):
        return failed(
            "entropy",
            "This verl computes the old log-probs without entropy (calculate_entropy is not set), which EP-GRPO needs. "
            "Use a version of verl that the plugin was tested with.",
            "pip install verl==0.9.1",
        )
    return ok("entropy", "computed with the old log-probs (calculate_entropy=True)")


def _reference_check(config: DictConfig, reference: _Workers) -> Check:
    import verl.trainer.main_ppo as main_ppo

    name = "reference policy"
    if not preflight.uses_ep_grpo(config):
        return ok(name, "in use" if main_ppo.need_reference_policy(config) else "not in use")
    if not preflight.maths_config(config.algorithm).progress:
        return ok(name, "not needed: the progress term is off")
    if not main_ppo.need_reference_policy(config):
        return failed(name, "verl would not compute ref_log_prob, which the progress term needs.", *REFERENCE_ON)
    if reference.called is None:
        return failed(name, "verl's trainer does not call its reference policy.", *REFERENCE_ON)
    where = "the actor with its LoRA adapter off" if ref_in_actor(config) else "a model of its own"
    kl = preflight.select(config, "actor_rollout_ref.actor.use_kl_loss", False)
    why = "as use_kl_loss=True asks" if kl else "turned on by the plugin, without a KL term"
    return ok(name, f"on, {where}; {why}")


def _temperature_check(actor: float | None, reference: float | None) -> Check:
    text = f"actor {actor}, reference {reference} ({TEMPERATURE})"
    if actor != reference:
        return failed(
            "temperature",
            f"{text}: log-probs at different temperatures cannot be compared. Use a version of verl that the plugin "
            "was tested with.",
            "pip install verl==0.9.1",
        )
    if actor is None or actor <= 0:
        return failed("temperature", f"{text}: entropy and log-probs are defined above 0 only.", f"{TEMPERATURE}=1.0")
    return ok("temperature", text)
