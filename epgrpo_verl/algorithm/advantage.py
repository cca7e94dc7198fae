# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Equations 7 and 8: the progress advantage and the final advantage."""

import torch


def progress_advantage(gate: torch.Tensor, direction: torch.Tensor, aligned: torch.Tensor, eta: float) -> torch.Tensor:
    """Equation 7: A_progress = eta * W * d * z.

    Args:
        gate: (bs, T) W, or 1 where the gate does not weight progress; 0 on masked tokens.
        direction: (bs,) anchor d.
        aligned: (bs, T) z; or its derivative, which gives the derivative of A_progress.
        eta: Weight of the progress term.

    Returns:
        (bs, T).
    """
    return (gate * (eta * direction).unsqueeze(1)).mul_(aligned)


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
    return total if clip is None else total.clamp_(-clip, clip)


def final_slope(outcome: torch.Tensor, progress: torch.Tensor, slope: torch.Tensor, clip: float | None) -> torch.Tensor:
    """Derivative of equation 8 by log pi_theta: that of A_progress, and 0 where the clip cuts.

    Args:
        outcome: (bs, T).
        progress: (bs, T).
        slope: (bs, T) derivative of A_progress.
        clip: Bound on the absolute value, or None.

    Returns:
        (bs, T).
    """
    return slope if clip is None else slope.masked_fill((outcome + progress).abs() > clip, 0.0)
