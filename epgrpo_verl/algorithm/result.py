# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What EP-GRPO returns."""

from dataclasses import dataclass

import torch

from .config import EPGRPOConfig


@dataclass(frozen=True)
class EPGRPOResult:
    """Advantages and everything they were made of; all detached.

    Shapes: bs rows (responses), T columns (response positions). "Valid" is a token with a non-zero mask. Floats of
    shape (bs, T) have the dtype of `token_level_rewards` (float32 if that is an integer type); those of shape (bs,) are
    float32, or float64 if any input was.

    Attributes:
        advantages: (bs, T) final advantage, equation 8, clipped to `advantage_clip` if set; 0 on masked tokens.
        outcome: (bs, T) gated outcome advantage W * A, equation 2; 0 on masked tokens.
        progress: (bs, T) progress advantage, equation 7; 0 on masked tokens.
        gate: (bs, T) W of equation 2, 1 where the gate is off; 0 on masked tokens.
        progress_coordinate: (bs, T) tau of equation 4 in [0, 1]; 0 on masked tokens.
        bucket: (bs, T) int16, bucket of equation 4 in [0, num_buckets); -1 on masked tokens.
        progress_slope: (bs, T) d advantages / d log pi_theta with gate, anchor and the bucket's mean and std held
            fixed: eta * W * d * lam / (sigma_b + progress_eps). 0 on masked tokens, in buckets without spread (there
            z is 0 by definition), with `progress` off, and where `advantage_clip` cuts the advantage.
        anchor: (bs,) d of equation 6: -1, 0 or 1; 0 on rows without a valid token.
        zero_variance: (bs,) bool, whether the row's group has two or more voting rows, all with equal rewards.
        outcome_reward: (bs,) r, the outcome of the row's session; 0 on rows without a valid token.
        outcome_advantage: (bs,) A of equation 1; 0 on rows without a valid token.
        group: (bs,) int64, number of the row's group, counted by first appearance in `index`.
        votes: (bs,) bool, whether the row counts in its group's reward statistics.
        valid_row: (bs,) bool, whether the row has a valid token.
        log_ratio: (bs, T) l = old_log_probs - ref_log_prob in float32 (float64 if any input was), 0 on masked tokens;
            None if no `ref_log_prob` was given (allowed with `progress` off).
        bucket_tokens: (bs, num_buckets) int64, valid tokens of the row in each bucket.
        config: The settings that were used.
    """

    advantages: torch.Tensor
    outcome: torch.Tensor
    progress: torch.Tensor
    gate: torch.Tensor
    progress_coordinate: torch.Tensor
    bucket: torch.Tensor
    progress_slope: torch.Tensor
    anchor: torch.Tensor
    zero_variance: torch.Tensor
    outcome_reward: torch.Tensor
    outcome_advantage: torch.Tensor
    group: torch.Tensor
    votes: torch.Tensor
    valid_row: torch.Tensor
    log_ratio: torch.Tensor | None
    bucket_tokens: torch.Tensor
    config: EPGRPOConfig
