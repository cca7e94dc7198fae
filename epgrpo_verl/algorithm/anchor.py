# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Equation 6: which way progress should point."""

import torch

from .outcome import GroupRewards


def anchor(
    reward: torch.Tensor,
    votes: torch.Tensor,
    group: torch.Tensor,
    stats: GroupRewards,
    threshold: float,
    atol: float,
    zero_variance: bool,
) -> torch.Tensor:
    """Equation 6: d = sign(A) when the group's rewards differ, sign(r - theta) when they are all equal.

    The sign of A is that of r - mean_g. A group of one has equal rewards in this sense, though it keeps A = r.
    A reward within `atol` of what it is compared with gives 0: the rounding of a mean must not choose a direction.

    Args:
        reward: (bs,) outcomes r.
        votes: (bs,) bool; rows that do not vote get 0.
        group: (bs,) int64 group numbers.
        stats: Statistics of the groups' rewards.
        threshold: theta.
        atol: Rewards closer than this are equal.
        zero_variance: Whether the second rule is on; off means sign(A) throughout.

    Returns:
        (bs,) -1, 0 or 1, in the dtype of `reward`.
    """
    compared_with = stats.mean[group]
    if zero_variance:
        compared_with = torch.where(stats.equal[group], threshold, compared_with)
    distance = reward.to(torch.float64) - compared_with
    return torch.sign(distance).masked_fill((distance.abs() <= atol) | ~votes, 0.0).to(reward.dtype)
