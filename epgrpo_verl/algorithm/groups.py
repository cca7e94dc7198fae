# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Which rows belong together, and sums over them.

Rows are few and tokens many, so everything here works on per-row numbers, in float64.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .blocks import row_sums


def group_ids(index: Sequence[Any] | torch.Tensor, num_rows: int) -> tuple[torch.Tensor, int]:
    """Numbers the groups of `index` by first appearance.

    Args:
        index: (bs,) one hashable key per row: verl's `uid` (a numpy object array), a list, or a tensor.
        num_rows: bs.

    Returns:
        (bs,) int64 group numbers on the CPU, and how many groups there are.

    Raises:
        TypeError: `index` is no sequence, or holds something that cannot be compared as a key.
        ValueError: `index` is not one-dimensional or not of length bs.
    """
    if not hasattr(index, "__getitem__") or isinstance(index, str | bytes | Mapping):
        raise TypeError(f"index must hold one group key (verl's uid) for each row, got {type(index).__name__}")
    ndim = getattr(index, "ndim", 1)
    if ndim != 1 or len(index) != num_rows:
        shape = tuple(getattr(index, "shape", (len(index),)))
        raise ValueError(
            f"index must hold one group key (verl's uid) for each of the {num_rows} rows, got shape {shape}"
        )
    keys = index.tolist() if hasattr(index, "tolist") else index
    for row, key in enumerate(keys):
        # A tensor is equal to itself only, and NaN not even to that: each row would be a group of its own.
        if not isinstance(key, Hashable) or isinstance(key, torch.Tensor) or key != key:
            raise TypeError(f"index must hold strings or numbers, got {key!r} in row {row}")
    numbers: dict[Any, int] = {}
    ids = [numbers.setdefault(key, len(numbers)) for key in keys]
    return torch.tensor(ids, dtype=torch.int64), len(numbers)


def last_output_rows(session: Sequence[Any], position: Sequence[int]) -> torch.Tensor:
    """Finds, for each row, the row that carries its session's outcome: the session's last output.

    Args:
        session: (bs,) one hashable key per row; rows of one session share it.
        position: (bs,) number of the output within its session; the largest is the last.

    Returns:
        (bs,) int64 row numbers, for the `outcome_row` argument of `ep_grpo_advantage`.

    Raises:
        ValueError: The lengths differ, or two rows of a session have the same position.
    """
    if len(session) != len(position):
        raise ValueError(f"session has {len(session)} entries and position {len(position)}; both need one for each row")
    if len(set(zip(session, position, strict=True))) != len(session):
        raise ValueError("two rows have the same session and position, so the last output is not defined")
    last: dict[Any, int] = {}
    for row, key in enumerate(session):
        if key not in last or position[last[key]] < position[row]:
            last[key] = row
    return torch.tensor([last[key] for key in session], dtype=torch.int64)


def scope_ids(scope: str, group: torch.Tensor, num_groups: int) -> tuple[torch.Tensor, int]:
    """Numbers the rows' statistics scopes.

    Args:
        scope: "group", "batch" or "sequence".
        group: (bs,) int64 group numbers.
        num_groups: How many groups there are.

    Returns:
        (bs,) int64 scope numbers and how many scopes there are.
    """
    if scope == "group":
        return group, num_groups
    if scope == "batch":
        return torch.zeros_like(group), 1
    return torch.arange(len(group), device=group.device), len(group)


def sum_by(values: torch.Tensor, ids: torch.Tensor, count: int) -> torch.Tensor:
    """Sums rows that share an id, in float64.

    Args:
        values: (bs, ...) per-row numbers.
        ids: (bs,) int64 in [0, count).
        count: How many ids there are.

    Returns:
        (count, ...) float64 sums; 0 for an id without rows. On a CPU the order of addition is the order of the rows,
        whatever the number of threads.
    """
    sums = torch.zeros((count, *values.shape[1:]), dtype=torch.float64, device=values.device)
    return sums.index_add_(0, ids, values.to(torch.float64))


@dataclass(frozen=True)
class Moments:
    """Moments of some tokens' values; three tensors of one shape, float64.

    Attributes:
        count: How many tokens.
        mean: Their mean; 0 for no tokens.
        squares: Sum of their squared deviations from the mean.
    """

    count: torch.Tensor
    mean: torch.Tensor
    squares: torch.Tensor

    @classmethod
    def of_rows(cls, values: torch.Tensor, weight: torch.Tensor) -> "Moments":
        """Moments of each row's valid tokens, in two passes.

        Args:
            values: (bs, T), 0 on masked tokens.
            weight: (bs, T) 1 on valid tokens, 0 on masked ones.

        Returns:
            Moments, (bs,) each.
        """
        count = row_sums(weight)
        mean = row_sums(values) / count.clamp(min=1)
        deviation = (values - mean.unsqueeze(1).to(values.dtype)).mul_(weight)
        return cls(count, mean, row_sums(deviation.square_()))

    @classmethod
    def join(cls, blocks: Sequence["Moments"]) -> "Moments":
        """Joins the moments of blocks of rows along the rows."""
        return cls(*(torch.cat([getattr(block, name) for block in blocks]) for name in ("count", "mean", "squares")))

    def combined(self, ids: torch.Tensor, count: int) -> "Moments":
        """Combines the rows that share an id.

        Squared deviations add up as in Chan, Golub and LeVeque (1979), which never subtracts two large sums.

        Args:
            ids: (bs,) int64 in [0, count).
            count: How many ids there are.

        Returns:
            Moments of each id, (count, ...).
        """
        tokens = sum_by(self.count, ids, count)
        mean = sum_by(self.count * self.mean, ids, count) / tokens.clamp(min=1)
        between = self.count * (self.mean - mean[ids]).square()
        return Moments(tokens, mean, sum_by(self.squares + between, ids, count))

    def std(self) -> torch.Tensor:
        """Population standard deviation; exactly 0 for no tokens and for equal values."""
        std = (self.squares / self.count.clamp(min=1)).sqrt()
        # The mean of equal values is off by the rounding of their sum; that is no spread.
        return torch.where(std > self.count * torch.finfo(torch.float64).eps * self.mean.abs(), std, 0.0)
