# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Equation 6: which way progress should point."""

import torch

from .outcome import GroupRewards


def anchor(
    reward: torch.Tensor,
    advantage: torch.Tensor,
    votes: torch.Tensor,
    group: torch.Tensor,
    stats: GroupRewards,
    threshold: float,
    zero_variance: bool,
) -> torch.Tensor:
    """Equation 6: d = sign(A) when the group's rewards differ, sign(r - theta) when they are all equal.

    A group of one has equal rewards in this sense, though it keeps A = r.

    Args:
        reward: (bs,) outcomes r.
        advantage: (bs,) outcome advantages A.
        votes: (bs,) bool; rows that do not vote get 0.
        group: (bs,) int64 group numbers.
        stats: Statistics of the groups' rewards.
        threshold: theta.
        zero_variance: Whether the second rule is on; off means sign(A) throughout.

    Returns:
        (bs,) -1, 0 or 1, in the dtype of `reward`.
    """
    direction = torch.sign(advantage)
    if zero_variance:
        direction = torch.where(stats.equal[group], torch.sign(reward - threshold), direction)
    return direction.masked_fill(~votes, 0.0)
