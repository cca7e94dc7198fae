# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Equation 2: the entropy gate."""

import torch

from .groups import sum_by


def entropy_statistics(
    entropy: torch.Tensor, mask: torch.Tensor, scope: torch.Tensor, num_scopes: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and population std of the valid tokens' entropy in each scope.

    Args:
        entropy: (bs, T) in nats, 0 on masked tokens.
        mask: (bs, T) bool.
        scope: (bs,) int64 scope numbers.
        num_scopes: How many scopes there are.

    Returns:
        Mean and std, (num_scopes,) float64 each; 0 for a scope without valid tokens.
    """
    count = sum_by(mask.sum(dim=1), scope, num_scopes).clamp(min=1)
    mean = sum_by(entropy.sum(dim=1, dtype=torch.float64), scope, num_scopes) / count
    deviation = torch.where(mask, entropy - mean[scope].unsqueeze(1).to(entropy.dtype), 0.0)
    variance = sum_by(deviation.square().sum(dim=1, dtype=torch.float64), scope, num_scopes) / count
    return mean, variance.sqrt()


def entropy_gate(
    entropy: torch.Tensor, mask: torch.Tensor, mean: torch.Tensor, std: torch.Tensor, gamma: float, eps: float
) -> torch.Tensor:
    """Equation 2: W = sigmoid(gamma * (H - mu_H) / (sigma_H + eps)).

    Args:
        entropy: (bs, T) in nats.
        mask: (bs, T) bool.
        mean: (bs,) mu_H of the row's scope.
        std: (bs,) sigma_H of the row's scope.
        gamma: Sharpness.
        eps: Added to the std.

    Returns:
        (bs, T) in [0, 1] on valid tokens, 0 on masked ones; dtype of `entropy`.
    """
    centred = entropy - mean.unsqueeze(1).to(entropy.dtype)
    scale = (gamma / (std + eps)).unsqueeze(1).to(entropy.dtype)
    # Not torch.sigmoid: its last elements take a scalar path with other bits, so bits would depend on threads.
    return torch.where(mask, 1 / (1 + torch.exp(-centred * scale)), 0.0)


def normalized_gate(gate: torch.Tensor, mask: torch.Tensor, scope: torch.Tensor, num_scopes: int) -> torch.Tensor:
    """Divides the gate by its mean over the scope's valid tokens, so that it keeps GRPO's total scale.

    Args:
        gate: (bs, T), 0 on masked tokens.
        mask: (bs, T) bool.
        scope: (bs,) int64 scope numbers.
        num_scopes: How many scopes there are.

    Returns:
        (bs, T) with mean 1 over each scope's valid tokens.
    """
    count = sum_by(mask.sum(dim=1), scope, num_scopes)
    total = sum_by(gate.sum(dim=1, dtype=torch.float64), scope, num_scopes)
    factor = torch.where(total > 0, count / total, 1.0)
    return gate * factor[scope].unsqueeze(1).to(gate.dtype)
