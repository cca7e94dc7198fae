# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Equation 1: the outcome advantage, verl's `grpo`."""

from dataclasses import dataclass

import torch

from .blocks import row_sums
from .groups import sum_by

STD_EPS = 1e-6
"""Added to the std of a group's rewards, as in verl's `compute_grpo_outcome_advantage`."""


@dataclass(frozen=True)
class GroupRewards:
    """Reward statistics of each group, over its voting rows; (G,) each, float64 unless said otherwise.

    Attributes:
        size: How many rows vote.
        mean: Mean reward; 0 for a group of one, as verl has it.
        std: Sample standard deviation (n - 1); 1 for a group of one, as verl has it.
        equal: bool, whether the rewards are equal: max - min <= atol. True for a group of one.
    """

    size: torch.Tensor
    mean: torch.Tensor
    std: torch.Tensor
    equal: torch.Tensor


def outcome_reward(token_level_rewards: torch.Tensor, valid_row: torch.Tensor) -> torch.Tensor:
    """Outcome r of each row: the sum of all its token-level rewards.

    A reward on a token that a later rejection masked still counts, so the sum is not masked.

    Args:
        token_level_rewards: (bs, T).
        valid_row: (bs,) bool; other rows give 0, whatever they hold.

    Returns:
        (bs,) float32, or float64 if the rewards are float64.
    """
    dtype = torch.float64 if token_level_rewards.dtype == torch.float64 else torch.float32
    return row_sums(token_level_rewards, dtype).masked_fill(~valid_row, 0.0)


def group_rewards(
    reward: torch.Tensor, votes: torch.Tensor, group: torch.Tensor, num_groups: int, atol: float
) -> GroupRewards:
    """Mean, std and equality of each group's rewards.

    Equality is max - min <= atol, never std > 0: seven rewards of 0.35 leave a float32 std that is not 0.

    Args:
        reward: (bs,) outcomes.
        votes: (bs,) bool, rows that count.
        group: (bs,) int64 group numbers.
        num_groups: G.
        atol: Largest spread of equal rewards.

    Returns:
        Statistics of the G groups.
    """
    size = sum_by(votes, group, num_groups)
    counted = torch.where(votes, reward.to(torch.float64), 0.0)
    mean = sum_by(counted, group, num_groups) / size.clamp(min=1)
    deviation = torch.where(votes, counted - mean[group], 0.0)
    std = (sum_by(deviation.square(), group, num_groups) / (size - 1).clamp(min=1)).sqrt()
    low = torch.full_like(mean, torch.inf).scatter_reduce_(0, group[votes], counted[votes], "amin")
    high = torch.full_like(mean, -torch.inf).scatter_reduce_(0, group[votes], counted[votes], "amax")
    alone = size == 1
    return GroupRewards(size, mean.masked_fill(alone, 0.0), std.masked_fill(alone, 1.0), high - low <= atol)


def outcome_advantage(
    reward: torch.Tensor, votes: torch.Tensor, group: torch.Tensor, stats: GroupRewards, norm_adv_by_std: bool
) -> torch.Tensor:
    """Equation 1: A = (r - mean_g) / (std_g + 1e-6), verl's `grpo`.

    Args:
        reward: (bs,) outcomes.
        votes: (bs,) bool; rows that do not vote get 0.
        group: (bs,) int64 group numbers.
        stats: Statistics of the groups.
        norm_adv_by_std: Whether to divide; verl's `norm_adv_by_std_in_grpo`.

    Returns:
        (bs,) in the dtype of `reward`; exactly 0 where the rewards of two or more voting rows are equal.
    """
    advantage = reward.to(torch.float64) - stats.mean[group]
    if norm_adv_by_std:
        advantage = advantage / (stats.std[group] + STD_EPS)
    collapsed = (stats.equal & (stats.size > 1))[group]
    return advantage.masked_fill(collapsed | ~votes, 0.0).to(reward.dtype)
