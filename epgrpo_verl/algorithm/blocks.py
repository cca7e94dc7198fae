# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Reading the inputs block by block.

Tokens are many: a (bs, T) temporary that leaves the CPU's cache costs more than the arithmetic on it. So the
token-level equations run on blocks of rows that stay in the cache, and the only arrays of full size are the results.
The size of a block depends on T alone, so the bits of the result do not depend on the number of threads.
"""

from collections.abc import Iterator

import torch

BLOCK_TOKENS = 1 << 17
"""Tokens of a block: half a megabyte in float32."""


def row_blocks(like: torch.Tensor) -> Iterator[slice]:
    """Cuts the rows of a (bs, T) tensor into blocks of about `BLOCK_TOKENS` tokens; off the CPU, one block.

    Args:
        like: (bs, T).

    Yields:
        Slices of rows.
    """
    num_rows, num_columns = like.shape
    step = max(1, BLOCK_TOKENS // num_columns) if like.device.type == "cpu" else num_rows
    for start in range(0, num_rows, step):
        yield slice(start, start + step)


def mask_weight(mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The mask as numbers: 1 on valid tokens, 0 on masked ones.

    Args:
        mask: (bs, T), non-zero on valid tokens.
        dtype: Of the result.

    Returns:
        (bs, T).
    """
    # A bool is a byte of 0 or 1, and torch converts bytes several times faster.
    return mask.bool().view(torch.uint8).to(dtype)


def select_valid(values: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Keeps valid tokens and puts 0 elsewhere, whatever stands there.

    Args:
        values: (bs, T) in any floating dtype.
        weight: (bs, T) 1 on valid tokens, 0 on masked ones.

    Returns:
        (bs, T) in the dtype of `weight`. NaN and inf on valid tokens are kept.
    """
    values = values.to(weight.dtype)
    kept = values * weight
    # NaN * 0 is NaN, so select where a product is not finite; a product is much faster otherwise.
    return kept if all_finite(kept) else torch.where(weight != 0, values, 0.0)


def select_log_ratio(old_log_probs: torch.Tensor, ref_log_prob: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Log-ratio to the frozen reference: l = log pi_theta - log pi_ref.

    Args:
        old_log_probs: (bs, T) log pi_theta of the policy that is about to be updated.
        ref_log_prob: (bs, T) log pi_ref.
        weight: (bs, T) 1 on valid tokens, 0 on masked ones.

    Returns:
        (bs, T) in the dtype of `weight`; 0 on masked tokens.
    """
    return select_valid(old_log_probs.to(weight.dtype) - ref_log_prob.to(weight.dtype), weight)


def row_sums(values: torch.Tensor, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Sums each row, with the same bits for any number of threads.

    Args:
        values: (bs, T).
        dtype: What to sum in.

    Returns:
        (bs,) in `dtype`.
    """
    if len(values) == 1:
        # torch shares a sum that has a single result out among its threads, in an order of its own.
        return values.expand(2, -1).sum(dim=1, dtype=dtype)[:1]
    return values.sum(dim=1, dtype=dtype)


def all_finite(values: torch.Tensor) -> bool:
    """Whether there is no NaN and no inf in a non-empty tensor."""
    low, high = torch.aminmax(values)
    return bool(torch.isfinite(low) & torch.isfinite(high))
