# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Compares a model that was loaded from the written folder with what was trained, tensor by tensor, in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import EllipsisType

import torch

from .lora import fuse
from .trained import Trained

EXACT = torch.float64
BLOCK = 2**24
"""Numbers compared at once."""


@dataclass
class Comparison:
    """What the comparison of all tensors found. Deviations and changes are absolute.

    Attributes:
        tensors: Tensors compared.
        dtypes: Dtypes that they were loaded with.
        missing: Trained tensors that the model does not have.
        surplus: Tensors of the model that were not trained.
        reshaped: Tensors of another shape.
        not_finite: Tensors with NaN or infinity.
        deviation: Largest deviation from what was trained, over all tensors.
        fused_deviation: The same over the adapted tensors.
        deviating: Tensors with a deviation above what rounding to their dtype explains.
        changed: Tensors that differ from the untrained model in their own dtype.
        moved: Tensors that differ from it before they are rounded.
        change: Largest change by training.
        fused: Adapted tensors.
        untrained: Adapted tensors with B = 0.
        drifted: Tensors without an adapter that differ from the base, although LoRA leaves them alone.
    """

    tensors: int = 0
    dtypes: set[torch.dtype] = field(default_factory=set)
    missing: list[str] = field(default_factory=list)
    surplus: list[str] = field(default_factory=list)
    reshaped: list[str] = field(default_factory=list)
    not_finite: list[str] = field(default_factory=list)
    deviation: float = 0.0
    fused_deviation: float = 0.0
    deviating: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)
    change: float = 0.0
    fused: list[str] = field(default_factory=list)
    untrained: list[str] = field(default_factory=list)
    drifted: list[str] = field(default_factory=list)


def compare(
    trained: Trained,
    loaded: Mapping[str, torch.Tensor],
    tied: Mapping[str, str],
    on_tensor: Callable[[], None] = lambda: None,
) -> Comparison:
    """Compares every tensor.

    Args:
        trained: What was trained.
        loaded: Tensors of the model that was loaded from the folder, by its own names.
        tied: Names that are other names of a tensor, see `write.tied_names`.
        on_tensor: Called after each tensor.
    """
    found = Comparison()
    names = trained.names
    through_another = {other for pair in tied.items() if names & set(pair) for other in pair}
    found.surplus = sorted(set(loaded) - names - through_another)
    found.missing = sorted(names - set(loaded))
    for name in sorted(names & set(loaded)):
        _compare_one(found, trained, name, loaded[name])
        on_tensor()
    return found


def _compare_one(found: Comparison, trained: Trained, name: str, written: torch.Tensor) -> None:
    found.tensors += 1
    found.dtypes.add(written.dtype)
    stored, before = trained.stored(name), trained.before(name)
    if not written.shape == before.shape == stored.shape:
        found.reshaped.append(name)
        return
    if not written.is_floating_point():
        if not torch.equal(written, stored):
            found.deviating.append(name)
        return
    if not torch.isfinite(written).all():
        found.not_finite.append(name)
        return
    adapter = (*trained.factors(name), trained.scaling.value) if name in trained.layout.factors else None
    worst, change, deviates, changed = 0.0, 0.0, False, False
    for rows in _blocks(written):
        after, bound = exact(stored[rows], adapter, rows, written.dtype)
        deviation = (written[rows].to(EXACT) - after).abs()
        worst = max(worst, deviation.max().item())
        deviates |= bool((deviation > bound).any())
        change = max(change, (after - before[rows].to(EXACT)).abs().max().item())
        changed |= not torch.equal(written[rows], before[rows].to(written.dtype))
    found.deviation, found.change = max(found.deviation, worst), max(found.change, change)
    for names, holds in ((found.deviating, deviates), (found.changed, changed), (found.moved, change > 0)):
        if holds:
            names.append(name)
    if adapter is not None:
        found.fused.append(name)
        found.fused_deviation = max(found.fused_deviation, worst)
        if not adapter[1].any():
            found.untrained.append(name)
    elif trained.scaling is not None and not torch.equal(stored, before.to(stored.dtype)):
        found.drifted.append(name)


def _blocks(tensor: torch.Tensor) -> Iterator[slice | EllipsisType]:
    """Rows of a tensor in blocks of a size that float64 copies of them need little memory."""
    if tensor.ndim == 0:
        yield ...
    elif tensor.numel():
        rows = max(1, BLOCK * tensor.shape[0] // tensor.numel())
        yield from (slice(start, start + rows) for start in range(0, tensor.shape[0], rows))


def exact(
    weight: torch.Tensor,
    adapter: tuple[torch.Tensor, torch.Tensor, float] | None,
    rows: slice | EllipsisType,
    dtype: torch.dtype,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The trained value in float64, and how far a written one may be from it.

    The largest deviation that one rounding to ``dtype`` and the float32 arithmetic of the fusing can cause is half a
    unit in the last place of the value, ``eps / 2 * |W + s B A|``, or of the smallest normal number, and for a sum of
    rank + 1 terms in float32 ``(rank + 2) eps32 (|W| + s |B| |A|)``.

    Args:
        weight: Rows of W.
        adapter: A of shape (rank, in), the whole B of shape (out, rank), and the scaling s; None without an adapter.
        rows: Which rows of B belong to the weight.
        dtype: Of the written tensor.

    Returns:
        Value and bound, both float64 and of the shape of ``weight``.
    """
    info = torch.finfo(dtype)
    after, arithmetic = weight.to(EXACT), 0.0
    if adapter is not None:
        a, b, scaling = adapter[0].to(EXACT), adapter[1][rows].to(EXACT), adapter[2]
        terms = after.abs() + scaling * (b.abs() @ a.abs())
        arithmetic = (a.shape[0] + 2) * torch.finfo(torch.float32).eps * terms
        after = fuse(weight, a, b, scaling, EXACT)
    return after, 1.01 * (0.5 * info.eps * after.abs() + info.smallest_normal * info.eps + arithmetic)
