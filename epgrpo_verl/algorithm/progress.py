# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Equations 3 to 5: the progress signal, logical progress, and progress alignment."""

from dataclasses import dataclass

import torch

from .groups import sum_by


@dataclass(frozen=True)
class BucketStats:
    """Statistics of the progress signal in each (scope, bucket); (num_scopes, K) each, float64.

    Attributes:
        mean: mu_b.
        std: sigma_b, population std; exactly 0 where all values are equal.
    """

    mean: torch.Tensor
    std: torch.Tensor


def log_ratio(old_log_probs: torch.Tensor, ref_log_prob: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Log-ratio to the frozen reference: l = log pi_theta - log pi_ref.

    Args:
        old_log_probs: (bs, T) log pi_theta of the policy that is about to be updated.
        ref_log_prob: (bs, T).
        mask: (bs, T) bool.

    Returns:
        (bs, T) float32, or float64 if an input is; 0 on masked tokens.
    """
    wide = torch.float64 in (old_log_probs.dtype, ref_log_prob.dtype)
    dtype = torch.float64 if wide else torch.float32
    return torch.where(mask, old_log_probs.to(dtype) - ref_log_prob.to(dtype), 0.0)


def progress_signal(ratio: torch.Tensor, lam: float) -> torch.Tensor:
    """Equation 3: s = lambda * l.

    Args:
        ratio: (bs, T) log-ratio l.
        lam: lambda.

    Returns:
        (bs, T).
    """
    return ratio * lam


def logical_progress(entropy: torch.Tensor, mask: torch.Tensor, num_buckets: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Equation 4: tau = S / S_last, b = min(floor(tau * K), K - 1), S the cumulative entropy of valid tokens.

    A row whose entropy is 0 throughout progresses by position: tau = j / number of valid tokens.

    Args:
        entropy: (bs, T) in nats, >= 0, 0 on masked tokens.
        mask: (bs, T) bool.
        num_buckets: K.

    Returns:
        tau, (bs, T) float64 in [0, 1], and b, (bs, T) int64 in [0, K). Both are meaningless on masked tokens.
    """
    # In float64, so that a token exactly on the edge of a bucket falls on the same side whatever came before it.
    cumulative = entropy.cumsum(dim=1, dtype=torch.float64)
    flat = cumulative[:, -1] == 0
    if flat.any():
        cumulative[flat] = mask[flat].cumsum(dim=1, dtype=torch.float64)
    total = cumulative[:, -1:].clamp(min=torch.finfo(torch.float64).tiny)
    bucket = (cumulative * num_buckets / total).to(torch.int64).clamp_(max=num_buckets - 1)
    return cumulative / total, bucket


def bucket_tokens(mask: torch.Tensor, bucket: torch.Tensor, num_buckets: int) -> torch.Tensor:
    """Counts the valid tokens of each row in each bucket.

    Args:
        mask: (bs, T) bool.
        bucket: (bs, T) int64 in [0, K).
        num_buckets: K.

    Returns:
        (bs, K) int64.
    """
    counts = torch.zeros((len(mask), num_buckets), dtype=torch.int64, device=mask.device)
    return counts.scatter_add_(1, bucket, mask.to(torch.int64))


def bucket_statistics(
    signal: torch.Tensor,
    mask: torch.Tensor,
    bucket: torch.Tensor,
    scope: torch.Tensor,
    num_scopes: int,
    num_buckets: int,
) -> BucketStats:
    """Mean and population std of the progress signal over the valid tokens of each (scope, bucket).

    Args:
        signal: (bs, T) progress signal s, 0 on masked tokens.
        mask: (bs, T) bool.
        bucket: (bs, T) int64 in [0, K).
        scope: (bs,) int64 scope numbers.
        num_scopes: How many scopes there are.
        num_buckets: K.

    Returns:
        Statistics; 0 for a bucket without valid tokens.
    """

    def bucket_sums(values: torch.Tensor) -> torch.Tensor:
        per_row = torch.zeros((len(values), num_buckets), dtype=torch.float64, device=values.device)
        per_row.scatter_add_(1, bucket, values.to(torch.float64))
        return sum_by(per_row, scope, num_scopes)

    count = bucket_sums(mask)
    mean = bucket_sums(signal) / count.clamp(min=1)
    deviation = torch.where(mask, signal - mean[scope].gather(1, bucket), 0.0)
    std = (bucket_sums(deviation.square()) / count.clamp(min=1)).sqrt()
    # The mean of equal values is off by the rounding of their sum; that is no spread.
    rounding = count * torch.finfo(torch.float64).eps * mean.abs()
    return BucketStats(mean, torch.where(std > rounding, std, 0.0))


def progress_alignment(
    signal: torch.Tensor,
    mask: torch.Tensor,
    bucket: torch.Tensor,
    scope: torch.Tensor,
    stats: BucketStats,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Equation 5: z = (s - mu_b) / (sigma_b + eps).

    Args:
        signal: (bs, T) progress signal s.
        mask: (bs, T) bool.
        bucket: (bs, T) int64 in [0, K).
        scope: (bs,) int64 scope numbers.
        stats: Statistics of the buckets.
        eps: Added to the std.

    Returns:
        z and its derivative by s with the statistics held fixed, (bs, T) each, in the dtype of `signal`. Both are 0
        on masked tokens and in buckets without spread (one token, or all equal).
    """
    inverse = torch.where(stats.std > 0, 1 / (stats.std + eps), 0.0)
    slope = torch.where(mask, inverse[scope].gather(1, bucket), 0.0)
    aligned = (signal - stats.mean[scope].gather(1, bucket)) * slope
    return aligned.to(signal.dtype), slope.to(signal.dtype)
