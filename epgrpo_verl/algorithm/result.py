# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What EP-GRPO returns."""

from dataclasses import dataclass, fields

import torch

from .blocks import mask_weight, select_log_ratio
from .config import EPGRPOConfig
from .gate import gated_outcome


@dataclass(frozen=True)
class EPGRPOResult:
    """Advantages and everything they were made of; all detached.

    `outcome` and `log_ratio` are properties.

    Shapes: bs rows (responses), T columns (response positions). "Valid" is a token with a non-zero mask. Floats of
    shape (bs, T) have the dtype of `token_level_rewards` (float32 if that is an integer type); those of shape (bs,) are
    float32, or float64 if any input was.

    Attributes:
        advantages: (bs, T) final advantage, equation 8, clipped to `advantage_clip` if set; 0 on masked tokens.
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
        old_log_probs, ref_log_prob: (bs, T) the inputs, detached but not copied; None if not given.
        bucket_tokens: (bs, num_buckets) int64, valid tokens of the row in each bucket.
        config: The settings that were used.
    """

    advantages: torch.Tensor
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
    old_log_probs: torch.Tensor | None
    ref_log_prob: torch.Tensor | None
    bucket_tokens: torch.Tensor
    config: EPGRPOConfig

    @property
    def outcome(self) -> torch.Tensor:
        """(bs, T) gated outcome advantage W * A, equation 2; 0 on masked tokens. Made on demand, to save memory."""
        wide = self.gate.to(self.outcome_advantage.dtype)
        return gated_outcome(wide, self.outcome_advantage).to(self.gate.dtype)

    @property
    def log_ratio(self) -> torch.Tensor | None:
        """(bs, T) l = log pi_theta - log pi_ref in float32 (float64 if any input was), 0 on masked tokens.

        Made on demand, to save memory. None if `old_log_probs` or `ref_log_prob` was not given.
        """
        if self.old_log_probs is None or self.ref_log_prob is None:
            return None
        weight = mask_weight(self.bucket >= 0, self.outcome_advantage.dtype)
        return select_log_ratio(self.old_log_probs, self.ref_log_prob, weight)

    def tensors(self) -> dict[str, torch.Tensor]:
        """All results by name, `outcome` and `log_ratio` included and the inputs left out."""
        names = [field.name for field in fields(self)] + ["outcome", "log_ratio"]
        names = [name for name in names if name not in ("old_log_probs", "ref_log_prob")]
        return {name: value for name in names if isinstance(value := getattr(self, name), torch.Tensor)}
