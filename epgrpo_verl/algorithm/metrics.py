# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What to log at each step.

verl combines the metrics of several iterations by their names (one with "max" or "min" in it takes the maximum or
minimum, one with "sum" the sum, all others the mean), so names are chosen to come out right.
"""

import torch

from .groups import scope_ids, sum_by
from .result import EPGRPOResult

METRICS: dict[str, str] = {
    "ep_grpo/groups/count": "Groups with at least one response that counts.",
    "ep_grpo/groups/of_one_share": "Share of groups in which only one response counts. 1 means a wrong grouping key.",
    "ep_grpo/zero_variance_groups/share": "Share of groups of two or more with equal rewards: nothing for GRPO.",
    "ep_grpo/zero_variance_groups/all_right_share": "Share of groups of two or more, all with one reward above theta.",
    "ep_grpo/zero_variance_groups/all_wrong_share": "Share of groups of two or more, all with one reward below theta.",
    "ep_grpo/zero_variance_tokens/share": "Share of tokens that get signal only from the zero-variance rule: those of "
    "zero-variance groups whose final advantage is not 0.",
    "ep_grpo/gate/mean": "Mean gate W over tokens; the factor by which the gate scales GRPO's gradient, roughly.",
    "ep_grpo/gate/min": "Smallest gate W.",
    "ep_grpo/gate/max": "Largest gate W.",
    "ep_grpo/entropy/mean": "Mean entropy of tokens, in nats.",
    "ep_grpo/entropy/std": "Standard deviation of the entropy over tokens, in nats.",
    "ep_grpo/log_ratio/mean": "Mean of log pi_theta - log pi_ref over tokens, in nats; 0 at the first step.",
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
        Values by the names of `METRICS`, all finite. Shares and means over nothing are 0. The log-ratio metrics are
        left out if the result has none.
    """
    mask = result.bucket >= 0
    tokens = int(mask.sum())
    metrics = {**_group_metrics(result), **_bucket_metrics(result)}

    def share(which: torch.Tensor) -> float:
        return int((which & mask).sum()) / max(tokens, 1)

    final_sign, outcome_sign = torch.sign(result.advantages), torch.sign(result.outcome)
    metrics["ep_grpo/zero_variance_tokens/share"] = share((final_sign != 0) & result.zero_variance.unsqueeze(1))
    metrics["ep_grpo/sign_flips/share"] = share(final_sign * outcome_sign < 0)
    metrics["ep_grpo/gate/mean"] = _mean_std(result.gate, mask, tokens)[0]
    metrics["ep_grpo/gate/min"] = _extreme(result.gate, mask, tokens, "min")
    metrics["ep_grpo/gate/max"] = _extreme(result.gate, mask, tokens, "max")
    metrics["ep_grpo/progress/abs_mean"] = _mean_std(result.progress.abs(), mask, tokens)[0]
    if entropy is not None:
        metrics["ep_grpo/entropy/mean"], metrics["ep_grpo/entropy/std"] = _mean_std(entropy, mask, tokens)
    if result.log_ratio is not None:
        metrics["ep_grpo/log_ratio/mean"], metrics["ep_grpo/log_ratio/std"] = _mean_std(result.log_ratio, mask, tokens)
        metrics["ep_grpo/log_ratio/abs_max"] = _extreme(result.log_ratio.abs(), mask, tokens, "max")
    return metrics


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


def _mean_std(values: torch.Tensor, mask: torch.Tensor, tokens: int) -> tuple[float, float]:
    # Rows first: the sum of a whole (bs, T) tensor depends on the number of threads.
    kept = torch.where(mask, values.to(torch.float64), 0.0)
    mean = float(kept.sum(dim=1).sum()) / max(tokens, 1)
    deviation = torch.where(mask, kept - mean, 0.0)
    return mean, (float(deviation.square().sum(dim=1).sum()) / max(tokens, 1)) ** 0.5


def _extreme(values: torch.Tensor, mask: torch.Tensor, tokens: int, which: str) -> float:
    if tokens == 0:
        return 0.0
    filled = values.masked_fill(~mask, torch.inf if which == "min" else -torch.inf)
    return float(filled.min() if which == "min" else filled.max())
