# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What to log at each step.

verl combines the metrics of several iterations by their names (one with "max" or "min" in it takes the maximum or
minimum, one with "sum" the sum, all others the mean), so names are chosen to come out right.
"""

import torch

from .blocks import mask_weight, row_blocks, select_log_ratio, select_valid
from .groups import Moments, scope_ids, sum_by
from .result import EPGRPOResult

METRICS: dict[str, str] = {
    "ep_grpo/groups/count": "Groups with at least one response that counts.",
    "ep_grpo/groups/of_one_share": "Share of groups in which only one response counts. 1 means a wrong grouping key.",
    "ep_grpo/zero_variance_groups/share": "Share of groups of two or more responses, all with equal rewards.",
    "ep_grpo/zero_variance_groups/all_right_share": "Share of groups of two or more, all with one reward above theta.",
    "ep_grpo/zero_variance_groups/all_wrong_share": "Share of groups of two or more, all with one reward below theta.",
    "ep_grpo/zero_variance_tokens/share": "Share of tokens that get signal only from the zero-variance rule: those of "
    "zero-variance groups whose final advantage is not 0.",
    "ep_grpo/gate/mean": "Mean gate W over tokens; the factor by which the gate scales GRPO's gradient, roughly.",
    "ep_grpo/gate/min": "Smallest gate W.",
    "ep_grpo/gate/max": "Largest gate W.",
    "ep_grpo/entropy/mean": "Mean entropy of tokens, in nats.",
    "ep_grpo/entropy/std": "Standard deviation of the entropy over tokens, in nats.",
    "ep_grpo/log_ratio/mean": "Mean of log pi_theta - log pi_ref over tokens, in nats; 0 at first, but for rounding.",
    "ep_grpo/log_ratio/std": "Standard deviation of the log-ratio over tokens, in nats.",
    "ep_grpo/log_ratio/abs_max": "Largest absolute log-ratio, in nats.",
    "ep_grpo/progress/abs_mean": "Mean absolute progress advantage over tokens; the paper notes that it needs about "
    "200 steps to settle.",
    "ep_grpo/sign_flips/share": "Share of tokens whose final advantage has the opposite sign of their outcome part.",
    "ep_grpo/bucket_occupancy/min": "Tokens in the emptiest bucket of any group (or of the batch, see bucket_scope).",
    "ep_grpo/bucket_occupancy/max": "Tokens in the fullest bucket of any group (or of the batch, see bucket_scope).",
}
"""Every metric that `ep_grpo_metrics` can return, and what it means."""


@torch.no_grad()
def ep_grpo_metrics(result: EPGRPOResult, entropy: torch.Tensor | None = None) -> dict[str, float]:
    """Summarises one batch. Only valid tokens and rows count, so padding changes nothing.

    Args:
        result: What `ep_grpo_advantage` returned.
        entropy: (bs, T) the entropy it was given, in nats; None leaves the entropy metrics out.

    Returns:
        Values by the names of `METRICS`, all finite. Shares, means and extremes over nothing are 0. The log-ratio
        metrics are left out if the result has no log-ratio.
    """
    return {**_group_metrics(result), **_bucket_metrics(result), **_token_metrics(result, entropy)}


def _token_metrics(result: EPGRPOResult, entropy: torch.Tensor | None) -> dict[str, float]:
    has_log_ratio = result.old_log_probs is not None and result.ref_log_prob is not None
    recovered = flipped = 0
    gates, progresses, entropies, log_ratios, low, high, abs_max = ([] for _ in range(7))
    for rows in row_blocks(result.bucket):
        weight = mask_weight(result.bucket[rows] >= 0, result.outcome_advantage.dtype)
        gate, advantage = result.gate[rows].to(weight.dtype), result.advantages[rows]
        gates.append(Moments.of_rows(gate, weight))
        low.append(torch.where(weight == 0, torch.inf, gate).min())
        high.append(gate.max())
        progresses.append(Moments.of_rows(result.progress[rows].abs().to(weight.dtype), weight))
        # Masked tokens have an advantage of 0, so neither counts them.
        recovered += int(torch.count_nonzero(advantage * result.zero_variance[rows].unsqueeze(1)))
        flipped += int(torch.count_nonzero(advantage * result.outcome_advantage[rows].sign().unsqueeze(1) < 0))
        if entropy is not None:
            entropies.append(Moments.of_rows(select_valid(entropy[rows], weight), weight))
        if has_log_ratio:
            ratio = select_log_ratio(result.old_log_probs[rows], result.ref_log_prob[rows], weight)
            log_ratios.append(Moments.of_rows(ratio, weight))
            abs_max.append(ratio.abs().max())

    tokens, gate_mean, _ = _total(gates)
    metrics = {
        "ep_grpo/zero_variance_tokens/share": recovered / max(tokens, 1),
        "ep_grpo/sign_flips/share": flipped / max(tokens, 1),
        "ep_grpo/gate/mean": gate_mean,
        "ep_grpo/gate/min": float(min(low)) if tokens else 0.0,
        "ep_grpo/gate/max": float(max(high)),
        "ep_grpo/progress/abs_mean": _total(progresses)[1],
    }
    if entropy is not None:
        _, metrics["ep_grpo/entropy/mean"], metrics["ep_grpo/entropy/std"] = _total(entropies)
    if has_log_ratio:
        _, metrics["ep_grpo/log_ratio/mean"], metrics["ep_grpo/log_ratio/std"] = _total(log_ratios)
        metrics["ep_grpo/log_ratio/abs_max"] = float(max(abs_max))
    return metrics


def _total(blocks: list[Moments]) -> tuple[float, float, float]:
    """Count, mean and std over all tokens of all blocks."""
    rows = Moments.join(blocks)
    total = rows.combined(torch.zeros(len(rows.count), dtype=torch.int64, device=rows.count.device), 1)
    return float(total.count), float(total.mean), float(total.std())


def _group_metrics(result: EPGRPOResult) -> dict[str, float]:
    num_groups = int(result.group.max()) + 1
    size = sum_by(result.votes, result.group, num_groups)
    groups = max(int((size > 0).sum()), 1)
    above = result.outcome_reward > result.config.reward_threshold
    below = result.outcome_reward < result.config.reward_threshold

    def share(rows: torch.Tensor) -> float:
        return int((sum_by(rows & result.votes, result.group, num_groups) > 0).sum()) / groups

    return {
        "ep_grpo/groups/count": float((size > 0).sum()),
        "ep_grpo/groups/of_one_share": int((size == 1).sum()) / groups,
        "ep_grpo/zero_variance_groups/share": share(result.zero_variance),
        "ep_grpo/zero_variance_groups/all_right_share": share(result.zero_variance & above),
        "ep_grpo/zero_variance_groups/all_wrong_share": share(result.zero_variance & below),
    }


def _bucket_metrics(result: EPGRPOResult) -> dict[str, float]:
    scope, num_scopes = scope_ids(result.config.bucket_scope, result.group, int(result.group.max()) + 1)
    counts = sum_by(result.bucket_tokens, scope, num_scopes)
    counts = counts[counts.sum(dim=1) > 0]
    low, high = (counts.min(), counts.max()) if counts.numel() else (0.0, 0.0)
    return {"ep_grpo/bucket_occupancy/min": float(low), "ep_grpo/bucket_occupancy/max": float(high)}
