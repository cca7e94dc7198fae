# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Equations 7 and 8, and the way through all eight."""

from collections.abc import Sequence
from typing import Any

import torch

from . import checks
from .anchor import anchor
from .config import EPGRPOConfig
from .gate import entropy_gate, entropy_statistics, normalized_gate
from .groups import group_ids, scope_ids
from .outcome import group_rewards, outcome_advantage, outcome_reward
from .progress import (
    bucket_statistics,
    bucket_tokens,
    log_ratio,
    logical_progress,
    progress_alignment,
    progress_signal,
)
from .result import EPGRPOResult


def progress_advantage(
    weight: torch.Tensor, direction: torch.Tensor, aligned: torch.Tensor, eta: float
) -> torch.Tensor:
    """Equation 7: A_progress = eta * W * d * z.

    Args:
        weight: (bs, T) gate W, or 1 where it does not weight progress; 0 on masked tokens.
        direction: (bs,) anchor d.
        aligned: (bs, T) z.
        eta: Weight of the progress term.

    Returns:
        (bs, T).
    """
    return weight * (eta * direction).unsqueeze(1) * aligned


def final_advantage(outcome: torch.Tensor, progress: torch.Tensor, clip: float | None) -> torch.Tensor:
    """Equation 8: A = A_outcome + A_progress, optionally clipped.

    Args:
        outcome: (bs, T).
        progress: (bs, T).
        clip: Bound on the absolute value, or None.

    Returns:
        (bs, T).
    """
    total = outcome + progress
    return total if clip is None else total.clamp(-clip, clip)


@torch.no_grad()
def ep_grpo_advantage(
    token_level_rewards: torch.Tensor,
    response_mask: torch.Tensor,
    entropy: torch.Tensor | None,
    old_log_probs: torch.Tensor | None,
    ref_log_prob: torch.Tensor | None,
    index: Sequence[Any] | torch.Tensor,
    config: EPGRPOConfig | None = None,
    norm_adv_by_std: bool = True,
    *,
    step: int | None = None,
    outcome_row: torch.Tensor | None = None,
    max_entropy: float | None = None,
) -> EPGRPOResult:
    """Computes EP-GRPO's advantages (arXiv 2605.04960, equations 18-25). No gradient flows.

    Statistics are float32 sums and float64 reductions for float16, bfloat16 and float32 inputs, float64 throughout
    for float64 ones. On a CPU the result has the same bits for any number of threads.

    Args:
        token_level_rewards: (bs, T) rewards. All columns count, masked or not.
        response_mask: (bs, T) bool or number, non-zero on valid tokens; may have holes. What the other tensors hold
            on masked tokens is ignored, NaN included.
        entropy: (bs, T) entropy H of the policy at each token, in nats. May be None with `gate` and `progress` off.
        old_log_probs: (bs, T) log pi_theta. May be None with `progress` off.
        ref_log_prob: (bs, T) log pi_ref. May be None with `progress` off.
        index: (bs,) group key of each row: verl's `uid`, as numpy object array, list or tensor.
        config: Settings; None gives the defaults.
        norm_adv_by_std: verl's `norm_adv_by_std_in_grpo`.
        step: Training step from 1; needed with `eta_warmup_steps` only.
        outcome_row: (bs,) int64, for sessions with several outputs: the row that carries this row's outcome and votes
            in its group (see `last_output_rows`). None means that each row carries its own. If the carrying row has
            no valid token, the session has no outcome and its rows get 0.
        max_entropy: log(vocabulary size) in nats; entropies above it are an error.

    Returns:
        Advantages and their parts, row i for input row i.

    Raises:
        TypeError: An input has the wrong type.
        ValueError: An input is missing, has the wrong shape, or holds NaN, inf or an impossible entropy on a valid
            token; the message names tensor, row and column.
    """
    config = EPGRPOConfig() if config is None else config
    eta = config.eta_at(step)
    _check_present(config, entropy, old_log_probs, ref_log_prob)
    tensors = {
        "token_level_rewards": token_level_rewards,
        "entropy": entropy,
        "old_log_probs": old_log_probs,
        "ref_log_prob": ref_log_prob,
    }
    checks.check_shapes(response_mask, tensors)
    given = [tensor.dtype for tensor in tensors.values() if tensor is not None]
    dtype = torch.float64 if torch.float64 in given else torch.float32
    out_dtype = token_level_rewards.dtype if token_level_rewards.is_floating_point() else torch.float32

    mask = response_mask != 0
    valid_row = mask.any(dim=1)
    num_rows = len(mask)
    group, num_groups = group_ids(index, num_rows)
    group = group.to(mask.device)
    carrier = checks.checked_outcome_row(outcome_row, group)

    own_reward = outcome_reward(token_level_rewards, valid_row).to(dtype)
    checks.check_rewards(own_reward, token_level_rewards, valid_row)
    votes = valid_row & (carrier == torch.arange(num_rows, device=mask.device))
    stats = group_rewards(own_reward, votes, group, num_groups, config.zero_variance_atol)
    own_advantage = outcome_advantage(own_reward, votes, group, stats, norm_adv_by_std)
    own_anchor = anchor(own_reward, own_advantage, votes, group, stats, config.reward_threshold, config.zero_variance)
    # Every output of a session has the session's outcome.
    reward, advantage, direction = (
        values[carrier].masked_fill(~valid_row, 0.0) for values in (own_reward, own_advantage, own_anchor)
    )

    gate = mask.to(dtype)
    tau = torch.zeros_like(gate)
    bucket = torch.zeros(mask.shape, dtype=torch.int64, device=mask.device)
    if entropy is not None:
        clean_entropy = torch.where(mask, entropy.to(dtype), 0.0)
        checks.check_entropy(clean_entropy, mask, max_entropy)
        clean_entropy.clamp_(min=0.0)
        if config.gate:
            scope, num_scopes = scope_ids(config.entropy_scope, group, num_groups)
            mean, std = entropy_statistics(clean_entropy, mask, scope, num_scopes)
            gate = entropy_gate(clean_entropy, mask, mean[scope], std[scope], config.gamma, config.gate_eps)
            if config.gate_normalize:
                gate = normalized_gate(gate, mask, scope, num_scopes)
        tau, bucket = logical_progress(clean_entropy, mask, config.num_buckets)

    ratio = None
    progress = torch.zeros_like(gate)
    slope = torch.zeros_like(gate)
    if old_log_probs is not None and ref_log_prob is not None:
        ratio = log_ratio(old_log_probs, ref_log_prob, mask).to(dtype)
        checks.check_log_probs(ratio, old_log_probs, ref_log_prob, mask)
    if config.progress:
        scope, num_scopes = scope_ids(config.bucket_scope, group, num_groups)
        signal = progress_signal(ratio, config.lam)
        buckets = bucket_statistics(signal, mask, bucket, scope, num_scopes, config.num_buckets)
        aligned, aligned_slope = progress_alignment(signal, mask, bucket, scope, buckets, config.progress_eps)
        weight = gate if config.gate_progress else mask.to(dtype)
        progress = progress_advantage(weight, direction, aligned, eta)
        slope = progress_advantage(weight, direction, aligned_slope, eta * config.lam)

    outcome = gate * advantage.unsqueeze(1)
    total = final_advantage(outcome, progress, config.advantage_clip)
    if config.advantage_clip is not None:
        slope = torch.where((outcome + progress).abs() > config.advantage_clip, 0.0, slope)
    return EPGRPOResult(
        advantages=total.to(out_dtype),
        outcome=outcome.to(out_dtype),
        progress=progress.to(out_dtype),
        gate=gate.to(out_dtype),
        progress_coordinate=torch.where(mask, tau, 0.0).to(out_dtype),
        bucket=bucket.masked_fill(~mask, -1).to(torch.int16),
        progress_slope=slope.to(out_dtype),
        anchor=direction,
        zero_variance=(stats.equal & (stats.size > 1))[group] & valid_row,
        outcome_reward=reward,
        outcome_advantage=advantage,
        group=group,
        votes=votes,
        valid_row=valid_row,
        log_ratio=ratio,
        bucket_tokens=bucket_tokens(mask, bucket, config.num_buckets),
        config=config,
    )


def _check_present(
    config: EPGRPOConfig,
    entropy: torch.Tensor | None,
    old_log_probs: torch.Tensor | None,
    ref_log_prob: torch.Tensor | None,
) -> None:
    if entropy is None and (config.gate or config.progress):
        raise ValueError(
            "entropy is missing: EP-GRPO needs it "
            "unless both algorithm.ep_grpo.gate and algorithm.ep_grpo.progress are false"
        )
    for name, tensor in {"old_log_probs": old_log_probs, "ref_log_prob": ref_log_prob}.items():
        if tensor is None and config.progress:
            raise ValueError(f"{name} is missing: EP-GRPO needs it unless algorithm.ep_grpo.progress is false")
