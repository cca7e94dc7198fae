# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of what the estimator is given, for errors that otherwise fail silently: the run goes on, on wrong numbers.

They cost a few passes over the batch. ``+algorithm.ep_grpo.guards=False`` turns them off. What cannot be right stops
the run (`check_inputs`); what may be right is warned about once (`warn_about_result`).
"""

from __future__ import annotations

import functools
import logging
import math
from typing import Any

import torch

from ..algorithm import EPGRPOResult
from . import EPGRPOPluginError
from .feed import Feed
from .preflight import select, warn_once

logger = logging.getLogger("epgrpo_verl")

OFF = "To go on all the same, set +algorithm.ep_grpo.guards=False."
MAX_LOG_PROB = 1e-2
"""Log-probs up to this are rounding (nats)."""
ENTROPY_TOLERANCE = 0.5
"""How far an entropy may be from what the token's own probability allows (nats). bfloat16 logits are off by 0.2."""
MAX_INCONSISTENT_SHARE = 0.05
"""A row with more than this share of inconsistent tokens, and at least `MIN_INCONSISTENT_TOKENS`, is not rounding."""
MIN_INCONSISTENT_TOKENS = 2
CERTAIN = -0.1
"""An entropy of exactly 0 goes with log-probs above this (nats): one token has all the probability."""
UNKNOWN_MAX_ENTROPY = math.log(2**20)
"""Stands in for log(vocabulary size) where that is unknown (nats)."""
FIRST_LOG_RATIO = 0.1
"""Mean absolute log-ratio at step 1 above which the policy did not start as the reference (nats)."""
ZERO_RATIO_CALLS = 10
"""A log-ratio of exactly 0 on this many batches in a row means that policy and reference are one."""

_zero_ratio_calls = 0


def entropy_bounds(log_probs: torch.Tensor, max_entropy: float) -> tuple[torch.Tensor, torch.Tensor]:
    """What the probability p of one token says about the entropy of the distribution that it is from.

    By the grouping property H = h(p) + (1 - p) * H(rest), with h the binary entropy and 0 <= H(rest) <= log(V - 1).

    Args:
        log_probs: log p, any shape, at most 0.
        max_entropy: log V in nats.

    Returns:
        Lower and upper bound in nats, in the shape of ``log_probs``.
    """
    p = log_probs.exp()
    rest = 1 - p
    low = -torch.xlogy(p, p) - torch.xlogy(rest, rest)
    return low, low + rest * max_entropy


def check_inputs(feed: Feed, response_mask: torch.Tensor) -> None:
    """Check that log-probs are log-probs, and that entropy and log-probs belong to the same tokens.

    The last one finds rows that were put back in another order for one of the two, as under dynamic batch size in
    verl <= 0.4 (verl-project/verl#1943), and temperatures that differ.

    Args:
        feed: The inputs; ``fields`` that are missing, or of another shape than the mask, are skipped.
        response_mask: (bs, T), non-zero on valid tokens.

    Raises:
        EPGRPOPluginError: The message names the field, the row and the column.
    """
    mask = response_mask != 0
    fields = {name: field for name, field in feed.fields.items() if field.shape == mask.shape}
    for name in ("old_log_probs", "ref_log_prob"):
        if name in fields:
            _check_log_probs(name, fields[name], mask)
    if "entropy" in fields and "old_log_probs" in fields:
        _check_same_tokens(fields["entropy"], fields["old_log_probs"], mask, feed.max_entropy)


def _check_log_probs(name: str, values: torch.Tensor, mask: torch.Tensor) -> None:
    bad = mask & (values > MAX_LOG_PROB)
    if bad.any():
        row, column = torch.nonzero(bad)[0].tolist()
        raise EPGRPOPluginError(
            f"ep_grpo: {name} must not be above 0, got {values[row, column].item():g} in row {row}, column {column} "
            f"({int(bad.sum())} such values in all). A kernel that gives this is wrong: try "
            f"actor_rollout_ref.model.use_fused_kernels=False. {OFF}"
        )


def _check_same_tokens(
    entropy: torch.Tensor, log_probs: torch.Tensor, mask: torch.Tensor, max_entropy: float | None
) -> None:
    low, high = entropy_bounds(log_probs.float().clamp(max=0.0), max_entropy or UNKNOWN_MAX_ENTROPY)
    bad = mask & ((entropy < low - ENTROPY_TOLERANCE) | (entropy > high + ENTROPY_TOLERANCE))
    # The padding of another, shorter row.
    bad |= mask & (entropy == 0) & (log_probs < CERTAIN)
    count, tokens = bad.sum(dim=1), mask.sum(dim=1)
    rows = (count >= MIN_INCONSISTENT_TOKENS) & (count > MAX_INCONSISTENT_SHARE * tokens)
    if rows.any():
        row = int(torch.nonzero(rows)[0])
        column = int(torch.nonzero(bad[row])[0])
        raise EPGRPOPluginError(
            f"ep_grpo: entropy and old_log_probs are not from the same tokens: in row {row}, {int(count[row])} of "
            f"{int(tokens[row])} tokens have an entropy that their log-prob rules out (column {column}: entropy "
            f"{entropy[row, column].item():.4g}, log-prob {log_probs[row, column].item():.4g}, so between "
            f"{low[row, column].item():.4g} and {high[row, column].item():.4g}); {int(rows.sum())} such rows in all. "
            "One of the two is in another row order (try actor_rollout_ref.actor.use_dynamic_bsz=False and "
            "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=False), at another temperature, or from a broken "
            f"kernel (try actor_rollout_ref.model.use_fused_kernels=False). {OFF}"
        )


def warn_about_result(result: EPGRPOResult, step: int | None) -> None:
    """Warn, once, about batches that EP-GRPO can make nothing of.

    Args:
        result: What the estimator computed.
        step: The trainer's global step, where known.
    """
    _warn_if_nothing_is_grouped(result)
    if result.log_ratio is not None and bool(result.valid_row.any()):
        _warn_about_log_ratio(result, step)


def _warn_if_nothing_is_grouped(result: EPGRPOResult) -> None:
    voting_groups = result.group[result.votes]
    if len(voting_groups) > 1 and len(voting_groups.unique()) == len(voting_groups):
        warn_once(
            f"ep_grpo: {len(voting_groups)} responses form {len(voting_groups)} groups of one, so nothing is compared "
            "within a group. Responses to one prompt must share a uid: check actor_rollout_ref.rollout.n (> 1) and, "
            "with an agent loop of your own, the uid that it sets."
        )


def _warn_about_log_ratio(result: EPGRPOResult, step: int | None) -> None:
    global _zero_ratio_calls
    ratio = result.log_ratio.abs()
    if bool((ratio == 0).all()):
        _zero_ratio_calls += 1
    else:
        _zero_ratio_calls = 0
    if _zero_ratio_calls == ZERO_RATIO_CALLS:
        warn_once(
            f"ep_grpo: old_log_probs and ref_log_prob were exactly equal in the last {ZERO_RATIO_CALLS} batches, so "
            "there is no progress term. The policy is not updated (actor_rollout_ref.actor.optim.lr, "
            "trainer.critic_warmup), or the reference follows it: with LoRA, the adapter is not switched off."
        )
    mean = float(ratio.sum() / (result.bucket >= 0).sum().clamp(min=1))
    if step == 1 and mean > FIRST_LOG_RATIO:
        warn_once(
            f"ep_grpo: at step 1 the policy is already {mean:.3g} nats per token away from the reference, so progress "
            "is measured from elsewhere than the start of training. With actor_rollout_ref.model.lora_adapter_path "
            "the reference is the model without that adapter: merge the adapter into the model first to measure from "
            "the start. Otherwise actor and reference differ in model, precision, temperature or row order."
        )


def log_vocabulary_size(config: Any) -> float | None:
    """The largest entropy that the model of a whole verl config can have.

    Returns:
        log(vocabulary size) in nats; None if the model's config cannot be read here.
    """
    path = select(config, "actor_rollout_ref.model.hf_config_path") or select(config, "actor_rollout_ref.model.path")
    return _log_vocabulary_size(path, bool(select(config, "actor_rollout_ref.model.trust_remote_code", False)))


@functools.cache
def _log_vocabulary_size(path: str | None, trust_remote_code: bool) -> float | None:
    if path is None:
        return None
    try:
        from transformers import AutoConfig
        from verl.utils.fs import copy_to_local

        config = AutoConfig.from_pretrained(copy_to_local(path), trust_remote_code=trust_remote_code)
        return math.log(config.get_text_config().vocab_size)
    except Exception as error:  # whatever a model's own code raises: the check is then left out
        logger.info("ep_grpo: the vocabulary size of %s is unknown, entropy has no upper bound: %r", path, error)
        return None
