# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Equations 3 to 5: the progress signal, logical progress, and progress alignment."""

import torch

from .groups import Moments


def progress_signal(log_ratio: torch.Tensor, lam: float) -> torch.Tensor:
    """Equation 3: s = lambda * l.

    Args:
        log_ratio: (bs, T) l.
        lam: lambda.

    Returns:
        (bs, T).
    """
    return log_ratio * lam


def logical_progress(
    entropy: torch.Tensor, weight: torch.Tensor, num_buckets: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Equation 4: tau = S / S_last, b = min(floor(tau * K), K - 1), S the cumulative entropy of valid tokens.

    A row whose entropy is 0 throughout progresses by position: tau = j / number of valid tokens.

    Args:
        entropy: (bs, T) in nats, >= 0, 0 on masked tokens.
        weight: (bs, T) 1 on valid tokens, 0 on masked ones.
        num_buckets: K.

    Returns:
        tau, (bs, T) float64 in [0, 1], and b, (bs, T) int16 in [0, K). A masked token has those of the token before
        it, so that neither ever falls along a row.
    """
    # In float64, so that a token exactly on the edge of a bucket falls on the same side whatever came before it.
    cumulative = entropy.to(torch.float64).cumsum(dim=1)
    flat = cumulative[:, -1] == 0
    if flat.any():
        cumulative[flat] = weight[flat].to(torch.float64).cumsum(dim=1)
    total = cumulative[:, -1:].clamp(min=torch.finfo(torch.float64).tiny)
    # K * S / S_last, not K * (S / S_last): 100 * (29 / 100) is below 29.
    bucket = (cumulative * num_buckets).div_(total).to(torch.int16).clamp_(max=num_buckets - 1)
    return cumulative.div_(total), bucket


def bucket_lengths(bucket: torch.Tensor, num_buckets: int) -> torch.Tensor:
    """Columns of each bucket. Buckets never fall along a row, so each is one run of columns.

    Args:
        bucket: (bs, T) int16 in [0, K), not falling along a row.
        num_buckets: K.

    Returns:
        (bs, K) int64; each row sums to T.
    """
    numbers = torch.arange(num_buckets, dtype=bucket.dtype, device=bucket.device).repeat(len(bucket), 1)
    starts = torch.searchsorted(bucket, numbers)
    return torch.diff(starts, append=starts.new_full((len(bucket), 1), bucket.shape[1]))


def bucket_counts(weight: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Counts the valid tokens of each row's buckets.

    Args:
        weight: (bs, T) 1 on valid tokens, 0 on masked ones.
        lengths: (bs, K) int64 columns of each bucket.

    Returns:
        (bs, K) int64.
    """
    up_to = torch.nn.functional.pad(weight.to(torch.int32).cumsum(dim=1, dtype=torch.int32), (1, 0))
    return (
        up_to.gather(1, lengths.cumsum(dim=1)).to(torch.int64).diff(dim=1, prepend=lengths.new_zeros(len(lengths), 1))
    )


def bucket_sums(values: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Sums each row's buckets, in float64.

    Args:
        values: (bs, T), 0 on masked tokens.
        lengths: (bs, K) int64 columns of each bucket.

    Returns:
        (bs, K) float64; 0 for an empty bucket.
    """
    return torch.segment_reduce(values.to(torch.float64), "sum", lengths=lengths, axis=1, unsafe=True)


def bucket_moments(
    signal: torch.Tensor, weight: torch.Tensor, bucket: torch.Tensor, lengths: torch.Tensor, count: torch.Tensor
) -> Moments:
    """Mean and squared deviations of the progress signal in each row's buckets, over valid tokens.

    Args:
        signal: (bs, T) progress signal s, 0 on masked tokens.
        weight: (bs, T) 1 on valid tokens, 0 on masked ones.
        bucket: (bs, T) int16 in [0, K).
        lengths: (bs, K) int64 columns of each bucket.
        count: (bs, K) int64 valid tokens of each bucket.

    Returns:
        Moments, (bs, K) each.
    """
    mean = bucket_sums(signal, lengths) / count.clamp(min=1)
    deviation = (signal - mean.to(signal.dtype).gather(1, bucket.to(torch.int64))).mul_(weight)
    return Moments(count.to(torch.float64), mean, bucket_sums(deviation.square_(), lengths))


def progress_alignment(
    signal: torch.Tensor, bucket: torch.Tensor, mean: torch.Tensor, std: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Equation 5: z = (s - mu_b) / (sigma_b + eps).

    Args:
        signal: (bs, T) progress signal s, 0 on masked tokens.
        bucket: (bs, T) int16 in [0, K), -1 on masked tokens.
        mean: (bs, K) mu_b of the row's scope.
        std: (bs, K) sigma_b of the row's scope, population std.
        eps: Added to the std.

    Returns:
        z and its derivative by s with the statistics held fixed, (bs, T) each, in the dtype of `signal`. Both are 0
        on masked tokens and in buckets without spread (one token, or all equal).
    """
    inverse = torch.where(std > 0, 1 / (std + eps), 0.0)
    # Column 0 of the tables belongs to masked tokens.
    column = bucket.to(torch.int64).add_(1)
    tables = (torch.nn.functional.pad(table, (1, 0)).to(signal.dtype) for table in (mean, inverse))
    centre, slope = (table.gather(1, column) for table in tables)
    return (signal - centre).mul_(slope), slope
