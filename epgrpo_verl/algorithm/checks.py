# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of the inputs. A bad number is an error that says where it is, never a silent zero."""

import torch

from .blocks import all_finite, select_valid

MIN_ENTROPY = -1e-3
"""Entropies down to this are kernel rounding and are clamped at 0 (nats)."""
MAX_ENTROPY_SLACK = 1e-3
"""How far above log(vocabulary size) an entropy may be (nats)."""


def check_norm_adv_by_std(norm_adv_by_std: bool) -> None:
    """Checks that the switch is one: the string 'False' counts as true.

    Raises:
        TypeError: It is not.
    """
    if not isinstance(norm_adv_by_std, bool):
        raise TypeError(
            f"norm_adv_by_std (algorithm.norm_adv_by_std_in_grpo) must be true or false (not quoted), "
            f"got {norm_adv_by_std!r}"
        )


def check_shapes(response_mask: torch.Tensor, tensors: dict[str, torch.Tensor | None]) -> None:
    """Checks that all per-token inputs have one two-dimensional, non-empty shape and live on one device.

    Args:
        response_mask: (bs, T).
        tensors: Name to tensor, expected (bs, T); None is skipped.

    Raises:
        TypeError: An input is no tensor.
        ValueError: Shapes or devices differ, or the batch is empty.
    """
    for name, tensor in {"response_mask": response_mask, **tensors}.items():
        if tensor is None:
            continue
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} must be a tensor, got {type(tensor).__name__}")
        if tensor.ndim != 2 or tensor.numel() == 0:
            raise ValueError(
                f"{name} must have shape (rows, response length) and not be empty, got {tuple(tensor.shape)}"
            )
        if tensor.shape != response_mask.shape:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}, response_mask {tuple(response_mask.shape)}")
        if tensor.device != response_mask.device:
            raise ValueError(f"{name} is on {tensor.device}, response_mask on {response_mask.device}")


def check_entropy(entropy: torch.Tensor, first_row: int, max_entropy: float | None) -> None:
    """Checks that entropies of valid tokens are finite and within [-1e-3, max_entropy + 1e-3].

    Args:
        entropy: (rows, T) in nats, 0 on masked tokens; a block of the batch.
        first_row: Number of the block's first row.
        max_entropy: log(vocabulary size) in nats, or None if unknown.

    Raises:
        ValueError: Names the first bad row and column.
    """
    low, high = torch.aminmax(entropy)
    if not torch.isfinite(low) or not torch.isfinite(high):
        _raise_not_finite("entropy", entropy, first_row)
    if low < MIN_ENTROPY:
        raise ValueError(
            f"entropy must not be negative, {_first(entropy < MIN_ENTROPY, entropy, first_row)}; "
            "a kernel that gives this is wrong (try actor_rollout_ref.model.use_fused_kernels=False)"
        )
    if max_entropy is not None and high > max_entropy + MAX_ENTROPY_SLACK:
        raise ValueError(
            f"entropy is above the largest possible, log(vocabulary size) = {max_entropy:g} nats, "
            f"{_first(entropy > max_entropy + MAX_ENTROPY_SLACK, entropy, first_row)}"
        )


def check_log_ratio(
    log_ratio: torch.Tensor,
    old_log_probs: torch.Tensor,
    ref_log_prob: torch.Tensor,
    weight: torch.Tensor,
    first_row: int,
) -> None:
    """Checks that both log-probs of valid tokens are finite, by way of their difference.

    Args:
        log_ratio: (rows, T) old - ref, 0 on masked tokens; a block of the batch.
        old_log_probs: (rows, T).
        ref_log_prob: (rows, T).
        weight: (rows, T) 1 on valid tokens, 0 on masked ones.
        first_row: Number of the block's first row.

    Raises:
        ValueError: Names the tensor and its first bad row and column.
    """
    if all_finite(log_ratio):
        return
    for name, values in {"old_log_probs": old_log_probs, "ref_log_prob": ref_log_prob}.items():
        _raise_not_finite(name, select_valid(values, weight), first_row)
    _raise_not_finite("old_log_probs - ref_log_prob", log_ratio, first_row)


def check_rewards(outcome_reward: torch.Tensor, token_level_rewards: torch.Tensor, valid_row: torch.Tensor) -> None:
    """Checks that the outcome of every row with a valid token is finite.

    Args:
        outcome_reward: (bs,) sums of the rows' rewards, 0 on rows without a valid token.
        token_level_rewards: (bs, T).
        valid_row: (bs,) bool, whether the row has a valid token.

    Raises:
        ValueError: Names the first bad row and column. Rewards on masked tokens count, so they are checked too.
    """
    if all_finite(outcome_reward):
        return
    _raise_not_finite("token_level_rewards", token_level_rewards.masked_fill(~valid_row.unsqueeze(1), 0), 0)
    row = int(torch.nonzero(~torch.isfinite(outcome_reward))[0])
    raise ValueError(f"the sum of token_level_rewards overflows in row {row}")


def checked_outcome_row(outcome_row: torch.Tensor | None, group: torch.Tensor) -> torch.Tensor:
    """Checks which row carries each row's outcome.

    Args:
        outcome_row: (bs,) row numbers, or None when each row carries its own.
        group: (bs,) int64 group numbers.

    Returns:
        (bs,) int64 row numbers.

    Raises:
        ValueError: Wrong shape, a number out of range, a carrier that points elsewhere, or one of another group.
    """
    rows = torch.arange(len(group), device=group.device)
    if outcome_row is None:
        return rows
    carrier = torch.as_tensor(outcome_row).to(device=group.device, dtype=torch.int64)
    if carrier.shape != group.shape or bool(((carrier < 0) | (carrier >= len(group))).any()):
        raise ValueError(f"outcome_row must hold one row number in [0, {len(group)}) for each row")
    bad = (carrier[carrier] != carrier) | (group[carrier] != group)
    if bool(bad.any()):
        row = int(torch.nonzero(bad)[0])
        raise ValueError(f"outcome_row[{row}] must be a row of the same group that carries its own outcome")
    return carrier


def _raise_not_finite(name: str, values: torch.Tensor, first_row: int) -> None:
    bad = ~torch.isfinite(values)
    if bool(bad.any()):
        raise ValueError(f"{name} must be finite on valid tokens, {_first(bad, values, first_row)}")


def _first(bad: torch.Tensor, values: torch.Tensor, first_row: int) -> str:
    row, column = torch.nonzero(bad)[0].tolist()
    return f"got {values[row, column].item():g} in row {first_row + row}, column {column}"
