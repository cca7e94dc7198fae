# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""``algorithm.adv_estimator=ep_grpo``: verl's estimator interface on one side, the maths on the other."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..algorithm import ep_grpo_advantage, ep_grpo_metrics, last_output_rows
from . import EPGRPOPluginError
from .feed import fed_from
from .guards import check_inputs, warn_about_result
from .preflight import select, settings

SECONDS = "timing_s/ep_grpo"
"""Metric with the seconds of one call. verl's ``timing_s/adv`` has it and the moving of its arguments and results."""


def compute_ep_grpo_outcome_advantage(
    token_level_rewards: torch.Tensor,
    response_mask: torch.Tensor,
    index: Sequence[Any] | None = None,
    config: Any = None,
    batch: Mapping[str, torch.Tensor] | None = None,
    non_tensor_batch: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """EP-GRPO's advantage as verl calls it.

    Entropy, old and reference log-probs are no arguments of verl's interface. They come from ``batch``, where verl
    passes it (verl-project/verl#7473), and otherwise from the plugin's hooks around the trainer.

    Args:
        token_level_rewards: Shape (bs, response_length).
        response_mask: Shape (bs, response_length); may have holes.
        index: Shape (bs,), the uid that the responses of one prompt share.
        config: verl's ``config.algorithm``; ``norm_adv_by_std_in_grpo`` and the section ``ep_grpo`` are read.
        batch: The batch's tensors by name, if verl passes them.
        non_tensor_batch: Accepted for the same interface; not used.
        **kwargs: Whatever else a version of verl passes to every estimator; not used.

    Returns:
        Advantages and returns, the same tensor of shape (bs, response_length), detached.

    Raises:
        EPGRPOPluginError: An input is missing or a setting is wrong; the message names the line to change.
        ValueError: NaN, inf or an impossible value on a valid token; the message names tensor, row and column.
    """
    started = time.perf_counter()
    feed = fed_from(batch if batch is not None else {})
    maths, plugin = settings(config)
    if index is None:
        raise EPGRPOPluginError("ep_grpo needs the uid of each row to form groups; this trainer passed no `index`.")
    need = ["entropy"] * (maths.gate or maths.progress) + ["old_log_probs", "ref_log_prob"] * maths.progress
    missing = [name for name in need if name not in feed.fields]
    if missing:
        raise EPGRPOPluginError(_how_to_get(missing))
    if plugin.guards:
        check_inputs(feed, response_mask)
    norm_adv_by_std = select(config, "norm_adv_by_std_in_grpo", True)
    result = ep_grpo_advantage(
        token_level_rewards,
        response_mask,
        feed.fields.get("entropy"),
        feed.fields.get("old_log_probs"),
        feed.fields.get("ref_log_prob"),
        index,
        maths,
        norm_adv_by_std,
        step=feed.step,
        outcome_row=_outcome_row(feed.keys),
        max_entropy=feed.max_entropy if plugin.guards else None,
    )
    if plugin.guards:
        warn_about_result(result, feed.step)
    # Only now: a failed computation leaves the feed as it was.
    feed.result = result
    feed.metrics.update(ep_grpo_metrics(result, feed.fields.get("entropy")))
    feed.metrics[SECONDS] = time.perf_counter() - started
    if plugin.trace_dir is not None:
        # Imported here: without a trace it costs nothing.
        from .tracing import trace

        trace(feed, index, plugin, norm_adv_by_std)
    return result.advantages, result.advantages


def _outcome_row(keys: Sequence[str] | None) -> torch.Tensor | None:
    """For each row, the last output of its session; None where every session has one output.

    Args:
        keys: V1 row keys ``{uid}_{session}_{index}``, in row order.
    """
    if keys is None:
        return None
    parts = [key.rsplit("_", 2) for key in keys]
    sessions = ["_".join(part[:2]) if len(part) == 3 else part[0] for part in parts]
    if len(set(sessions)) == len(sessions):
        return None
    return last_output_rows(sessions, [int(part[2]) if len(part) == 3 else 0 for part in parts])


def _how_to_get(missing: Sequence[str]) -> str:
    ways = {
        "entropy": "entropy comes from the actor's old-log-prob pass: set "
        "algorithm.rollout_correction.bypass_mode=False, and use one of verl's own trainers, which the plugin hooks",
        "old_log_probs": "old_log_probs come from the actor's old-log-prob pass: set "
        "algorithm.rollout_correction.bypass_mode=False",
        "ref_log_prob": "ref_log_prob comes from the reference policy, which the plugin turns on: if a trainer of your "
        "own decides that by itself, set actor_rollout_ref.actor.use_kl_loss=True and "
        "actor_rollout_ref.actor.kl_loss_coef=0",
    }
    return f"ep_grpo: {', '.join(missing)} did not reach the estimator. " + ". ".join(
        ways[name][0].upper() + ways[name][1:] for name in missing
    )
