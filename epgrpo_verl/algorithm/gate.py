# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Equation 2: the entropy gate."""

import torch

from .groups import sum_by


def entropy_gate(
    entropy: torch.Tensor, weight: torch.Tensor, mean: torch.Tensor, std: torch.Tensor, gamma: float, eps: float
) -> torch.Tensor:
    """Equation 2: W = sigmoid(gamma * (H - mu_H) / (sigma_H + eps)).

    Args:
        entropy: (bs, T) in nats.
        weight: (bs, T) 1 on valid tokens, 0 on masked ones.
        mean: (bs,) mu_H of the row's scope.
        std: (bs,) sigma_H of the row's scope.
        gamma: Sharpness.
        eps: Added to the std.

    Returns:
        (bs, T) in [0, 1] on valid tokens, 0 on masked ones; dtype of `entropy`.
    """
    scale = (gamma / (std + eps)).unsqueeze(1).to(entropy.dtype)
    exponent = (mean.unsqueeze(1).to(entropy.dtype) - entropy).mul_(scale)
    # Not torch.sigmoid: its last elements take a scalar path with other bits, so bits would depend on threads.
    return exponent.exp_().add_(1).reciprocal_().mul_(weight)


def gate_factor(gate_sum: torch.Tensor, tokens: torch.Tensor, scope: torch.Tensor, num_scopes: int) -> torch.Tensor:
    """What brings the mean of the gate over each scope's valid tokens to 1, so that it keeps GRPO's total scale.

    Args:
        gate_sum: (bs,) sum of the row's gate.
        tokens: (bs,) number of the row's valid tokens.
        scope: (bs,) int64 scope numbers.
        num_scopes: How many scopes there are.

    Returns:
        (bs,) float64 factor of the row's gate; 1 where there is nothing to scale.
    """
    total = sum_by(gate_sum, scope, num_scopes)
    factor = torch.where(total > 0, sum_by(tokens, scope, num_scopes) / total, 1.0)
    return factor[scope]


def gated_outcome(gate: torch.Tensor, advantage: torch.Tensor) -> torch.Tensor:
    """Equation 2, second half: A_outcome = W * A.

    Args:
        gate: (bs, T) W, 0 on masked tokens.
        advantage: (bs,) A.

    Returns:
        (bs, T).
    """
    return gate * advantage.unsqueeze(1)
