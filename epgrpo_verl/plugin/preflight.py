# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of the user's config before any model is loaded.

`prepare` runs whenever verl asks whether a config needs the reference policy, which every trainer and every entry
script of verl does first: in the driver before Ray starts, and again in the trainer's process.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Mapping
from typing import Any

from omegaconf.errors import OmegaConfBaseException

from ..algorithm import EPGRPOConfig
from . import ESTIMATOR, EPGRPOPluginError
from .settings import PluginSettings, split_settings

logger = logging.getLogger("epgrpo_verl")


@functools.cache
def warn_once(message: str) -> None:
    """Log a warning the first time that this process meets it."""
    logger.warning(message)


def select(config: Any, path: str, default: Any = None) -> Any:
    """Read a dotted path from a config; a missing part anywhere on the way gives ``default``.

    Args:
        config: A DictConfig, a dict, or one of verl's config dataclasses.
        path: Names with dots between them.
        default: What a missing part or null gives.

    Raises:
        EPGRPOPluginError: A part on the way is a plain value, or the value cannot be resolved.
    """
    node, read = config, []
    for name in path.split("."):
        if node is None:
            return default
        if not isinstance(node, Mapping):  # verl's dataclasses are mappings too
            raise EPGRPOPluginError(f"{'.'.join(read)} must be a section of settings, got {node!r}")
        read.append(name)
        try:
            node = node[name]
        except (KeyError, AttributeError):  # verl's dataclasses raise the latter
            return default
        except OmegaConfBaseException as error:
            raise EPGRPOPluginError(f"{'.'.join(read)} cannot be read: {error}") from error
    return default if node is None else node


def uses_ep_grpo(config: Any) -> bool:
    """Whether ``algorithm.adv_estimator`` of a whole verl config is ``ep_grpo``."""
    return select(config, "algorithm.adv_estimator") == ESTIMATOR


def base_loss(loss_mode: str | None) -> str | None:
    """The policy loss under the policy-loss hook: ``vanilla`` for ``ep_grpo``, ``x`` for ``ep_grpo/x``, else None."""
    if loss_mode == ESTIMATOR:
        return "vanilla"
    prefix, slash, base = str(loss_mode).partition("/")
    return base if prefix == ESTIMATOR and slash else None


def can_refresh(loss: str) -> bool:
    """Whether the policy-loss hook works over a policy loss of verl: not over itself, nor over the one of bypass mode.

    The latter takes the rollout's log-probs for those of the policy before the update.
    """
    return base_loss(loss) is None and loss != "bypass_mode"


def settings(algorithm_config: Any) -> tuple[EPGRPOConfig, PluginSettings]:
    """The section ``algorithm.ep_grpo``: the settings of the maths and those of the plugin; without it, the defaults.

    Args:
        algorithm_config: verl's ``config.algorithm``, a DictConfig, a dict or None.

    Raises:
        EPGRPOPluginError: An unknown key, a wrong type, or a value out of range.
    """
    try:
        return split_settings(select(algorithm_config, ESTIMATOR))
    except (TypeError, ValueError, OmegaConfBaseException) as error:
        raise EPGRPOPluginError(str(error)) from error


def maths_config(algorithm_config: Any) -> EPGRPOConfig:
    """The settings of the maths in ``algorithm.ep_grpo``, as `settings` reads them."""
    return settings(algorithm_config)[0]


def tokenizer_source(config: Any) -> tuple[str, bool] | None:
    """Where the tokenizer of a whole verl config comes from, and whether code that comes with it may run."""
    model = "actor_rollout_ref.model"
    path = select(config, f"{model}.tokenizer_path") or select(config, f"{model}.path")
    return None if path is None else (str(path), bool(select(config, f"{model}.trust_remote_code", False)))


def prepare(config: Any) -> bool:
    """Check a verl config that uses ``ep_grpo``, and say whether EP-GRPO needs the reference policy.

    Where no KL option had turned the reference on, its micro-batch size may be unset, because verl did not ask for
    it: it then takes the one of the actor's old-log-prob pass (``rollout.log_prob_micro_batch_size_per_gpu``), which
    is the same forward pass over the same rows.

    Args:
        config: The whole verl config, a DictConfig; for other estimators it is left alone.

    Returns:
        True if the config uses ``ep_grpo`` with its progress term, which compares the policy with the reference.

    Raises:
        EPGRPOPluginError: The config cannot work; the message names the line to change. That includes another
            estimator with the policy loss of this one.
    """
    loss_mode = select(config, "actor_rollout_ref.actor.policy_loss.loss_mode")
    if base_loss(loss_mode) is not None:
        _check_policy_loss(config, loss_mode)
    if not uses_ep_grpo(config):
        return False
    maths = maths_config(config.algorithm)
    _refuse_what_cannot_work(config)
    _warn_about_what_works_against_it(config, maths)
    if not maths.progress:
        return False
    _share_micro_batch_size_with_reference(config)
    return True


def _refuse_what_cannot_work(config: Any) -> None:
    if select(config, "algorithm.rollout_correction.bypass_mode", False):
        raise EPGRPOPluginError(
            "ep_grpo needs the token entropy of the actor's old-log-prob pass, which bypass mode skips. "
            "Set algorithm.rollout_correction.bypass_mode=False."
        )
    norm_adv_by_std = select(config, "algorithm.norm_adv_by_std_in_grpo", True)
    if not isinstance(norm_adv_by_std, bool):
        raise EPGRPOPluginError(
            f"algorithm.norm_adv_by_std_in_grpo must be true or false (not quoted), got {norm_adv_by_std!r}"
        )


def _check_policy_loss(config: Any, loss_mode: str) -> None:
    key, base = "actor_rollout_ref.actor.policy_loss.loss_mode", base_loss(loss_mode)
    if not uses_ep_grpo(config):
        raise EPGRPOPluginError(
            f"{key}={loss_mode} updates the progress term of adv_estimator={ESTIMATOR}, which is not in use. "
            f"Set algorithm.adv_estimator={ESTIMATOR}, or {key}={base}."
        )
    # A loss of the user's own may be registered in the actor's workers only.
    core_algos = sys.modules.get("verl.trainer.ppo.core_algos")
    if core_algos is not None and select(config, "actor_rollout_ref.model.external_lib") is None:
        known = [name for name in core_algos.POLICY_LOSS_REGISTRY if can_refresh(name)]
        if base not in known:
            raise EPGRPOPluginError(
                f"{key}={loss_mode}: there is no policy loss {base!r} to refresh. "
                f"Set {key}={ESTIMATOR}/<name> with one of: {', '.join(known)}."
            )
    if maths_config(config.algorithm).advantage_clip is not None:
        raise EPGRPOPluginError(
            f"algorithm.ep_grpo.advantage_clip bounds the advantages of the estimator, and {key}={loss_mode} changes "
            f"them afterwards. Set algorithm.ep_grpo.advantage_clip=null, or {key}={base}."
        )


def _warn_about_what_works_against_it(config: Any, maths: EPGRPOConfig) -> None:
    if maths.zero_variance and select(config, "algorithm.filter_groups.enable", False):
        warn_once(
            "algorithm.filter_groups.enable=True removes the groups with equal rewards, which are the ones that "
            "ep_grpo's zero-variance rule learns from. Set algorithm.filter_groups.enable=False to keep them."
        )
    if select(config, "algorithm.use_kl_in_reward", False):
        warn_once(
            "algorithm.use_kl_in_reward=True subtracts the KL from the reward: ep_grpo then takes reward minus KL as "
            "the outcome, so no two rewards of a group are equal and the zero-variance rule never applies. "
            "Set algorithm.use_kl_in_reward=False."
        )
    adapter = select(config, "actor_rollout_ref.model.lora_adapter_path")
    if maths.progress and adapter is not None:
        warn_once(
            f"actor_rollout_ref.model.lora_adapter_path={adapter}: the reference is the model without any adapter, so "
            "ep_grpo measures progress from there and not from the adapter that training starts with. Merge the "
            "adapter into the model and set actor_rollout_ref.model.lora_adapter_path=null to measure from the start."
        )
    if select(config, "actor_rollout_ref.rollout.n", 1) == 1:
        warn_once(
            "actor_rollout_ref.rollout.n=1 gives groups of one response: there is nothing to compare within a group. "
            "Set actor_rollout_ref.rollout.n=8, say."
        )


def _share_micro_batch_size_with_reference(config: Any) -> None:
    reference = select(config, "actor_rollout_ref.ref")
    if reference is None or select(config, "actor_rollout_ref.ref.log_prob_use_dynamic_bsz", False):
        return
    names = ("log_prob_micro_batch_size", "log_prob_micro_batch_size_per_gpu")
    if any(reference.get(name) is not None for name in names):
        return
    for name in names:
        value = select(config, f"actor_rollout_ref.rollout.{name}")
        if value is not None:
            reference[name] = value
            logger.info(
                "ep_grpo turned the reference policy on: actor_rollout_ref.ref.%s=%s, as for the old log-probs",
                name,
                value,
            )
