# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""``actor_rollout_ref.actor.policy_loss.loss_mode=ep_grpo``: the progress term follows the policy during an update.

The estimator computes advantages once per batch, from the policy before the update. With several optimizer steps per
batch the policy moves away from there, and the progress term, a function of log pi_theta, with it. This hook brings
it up to date in the loss of every micro-batch, holding gate, anchor and the statistics of the buckets fixed:

    A(theta) = A + progress_slope * (log pi_theta - log pi_old), without gradient

and then calls a policy loss of verl with A(theta): ``vanilla`` for ``ep_grpo``, any other one for ``ep_grpo/<name>``.
On the first on-policy update, log pi_theta is log pi_old, and the loss is that of the estimator's advantages.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import torch

from . import ESTIMATOR, EPGRPOPluginError
from .preflight import base_loss, can_refresh, select

SLOPE = "ep_grpo_progress_slope"
"""Name of the slope, (bs, T), in verl's data path from the trainer to the actor's workers."""

PolicyLoss = Callable[..., tuple[torch.Tensor, dict[str, Any]]]

_slope: ContextVar[torch.Tensor | None] = ContextVar("epgrpo_verl_slope", default=None)


def wants_slope(config: Any) -> bool:
    """Whether the policy loss of a whole verl config needs the slope in its batch."""
    return base_loss(select(config, "actor_rollout_ref.actor.policy_loss.loss_mode")) is not None


def refreshed_advantage(
    advantages: torch.Tensor, slope: torch.Tensor, log_prob: torch.Tensor, old_log_prob: torch.Tensor
) -> torch.Tensor:
    """A(theta) = A + slope * (log pi_theta - log pi_old), detached.

    Args:
        advantages: (bs, T) advantages of the estimator.
        slope: (bs, T) d A / d log pi_theta, 0 on masked tokens.
        log_prob: (bs, T) of the current policy.
        old_log_prob: (bs, T) of the policy that the advantages were computed with.

    Returns:
        (bs, T). Tokens with slope 0 keep their advantage, whatever their log-probs are.
    """
    moved = (log_prob - old_log_prob).detach()
    return advantages + torch.where(slope != 0, slope * moved, 0.0).to(advantages.dtype)


def refreshed_loss(base: str) -> PolicyLoss:
    """A policy loss in verl's interface: the one registered as ``base``, with the refreshed advantages."""

    def compute_policy_loss_ep_grpo(
        old_log_prob: torch.Tensor,
        log_prob: torch.Tensor,
        advantages: torch.Tensor,
        response_mask: torch.Tensor,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        slope = _slope.get()
        if slope is None:
            raise EPGRPOPluginError(
                f"the policy loss {ESTIMATOR!r} was called outside of verl's ppo_loss, which hands it the slope. "
                "Set actor_rollout_ref.actor.policy_loss.loss_mode=vanilla."
            )
        refreshed = refreshed_advantage(advantages, slope, log_prob, old_log_prob)
        loss, metrics = _lookup(base)(
            old_log_prob=old_log_prob,
            log_prob=log_prob,
            advantages=refreshed,
            response_mask=response_mask,
            **kwargs,
        )
        change = torch.where(response_mask != 0, (refreshed - advantages).abs(), 0.0).sum()
        tokens = (response_mask != 0).sum().clamp(min=1)
        return loss, {**metrics, "actor/ep_grpo/refresh_abs_mean": (change / tokens).item()}

    return compute_policy_loss_ep_grpo


def wrap_register_policy_loss(wrapped: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``register_policy_loss``: a loss that is registered later gets its refreshed form as well."""

    @functools.wraps(wrapped)
    def register_policy_loss(name: str, *args: Any, **kwargs: Any) -> Callable[[PolicyLoss], PolicyLoss]:
        def decorator(loss: PolicyLoss) -> PolicyLoss:
            registered = wrapped(name, *args, **kwargs)(loss)
            if can_refresh(name):
                wrapped(f"{ESTIMATOR}/{name}")(refreshed_loss(name))
            return registered

        return decorator

    return register_policy_loss


def register_losses(core_algos: Any) -> None:
    """Register ``ep_grpo``, and ``ep_grpo/<name>`` for every policy loss of verl that `can_refresh` takes.

    Args:
        core_algos: verl's module ``verl.trainer.ppo.core_algos``.
    """
    names = [name for name in core_algos.POLICY_LOSS_REGISTRY if can_refresh(name)]
    register = getattr(core_algos.register_policy_loss, "__wrapped__", core_algos.register_policy_loss)
    for name in names:
        register(f"{ESTIMATOR}/{name}")(refreshed_loss(name))
    register(ESTIMATOR)(refreshed_loss("vanilla"))


def _lookup(name: str) -> PolicyLoss:
    from verl.trainer.ppo.core_algos import get_policy_loss_fn

    return get_policy_loss_fn(name)


def wrap_ppo_loss(wrapped: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``ppo_loss``, which drops all fields but its own, to hand the slope of the micro-batch to the loss."""

    @functools.wraps(wrapped)
    def ppo_loss(config: Any, model_output: Any, data: Any, *args: Any, **kwargs: Any) -> Any:
        loss_mode = config.policy_loss.get("loss_mode", "vanilla")
        if base_loss(loss_mode) is None:
            return wrapped(config, model_output, data, *args, **kwargs)
        if SLOPE not in data.keys():
            raise EPGRPOPluginError(
                f"policy_loss.loss_mode={loss_mode} needs the slope that adv_estimator={ESTIMATOR} computes, and it is "
                f"not in the batch. Set algorithm.adv_estimator={ESTIMATOR}, or "
                f"actor_rollout_ref.actor.policy_loss.loss_mode={base_loss(loss_mode)}."
            )
        token = _slope.set(data.select(SLOPE).to_padded_tensor()[SLOPE])
        try:
            return wrapped(config, model_output, data, *args, **kwargs)
        finally:
            _slope.reset(token)

    return ppo_loss
