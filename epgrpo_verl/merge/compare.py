# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Compares a model that was loaded from the written folder with what was trained, tensor by tensor, in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from .trained import Trained

EXACT = torch.float64


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
    before, after = trained.before(name), trained.after(name, EXACT)
    if not written.shape == before.shape == after.shape:
        found.reshaped.append(name)
        return
    if not written.is_floating_point():
        if not torch.equal(written, after):
            found.deviating.append(name)
        return
    if not torch.isfinite(written).all():
        found.not_finite.append(name)
        return
    deviation = (written.to(EXACT) - after).abs()
    worst = deviation.max().item() if deviation.numel() else 0.0
    found.deviation = max(found.deviation, worst)
    if name in trained.layout.factors:
        found.fused.append(name)
        found.fused_deviation = max(found.fused_deviation, worst)
        if not trained.factors(name)[1].any():
            found.untrained.append(name)
    elif trained.scaling is not None and name in trained.layout.weights:
        stored = trained.stored(name)
        if not torch.equal(stored, before.to(stored.dtype)):
            found.drifted.append(name)
    if (deviation > rounding_bound(trained, name, after, written.dtype)).any():
        found.deviating.append(name)
    if not torch.equal(written, before.to(written.dtype)):
        found.changed.append(name)
    if not torch.equal(after, before.to(EXACT)):
        found.moved.append(name)
        found.change = max(found.change, (after - before.to(EXACT)).abs().max().item())


def rounding_bound(trained: Trained, name: str, after: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The largest deviation that one rounding to ``dtype`` and the float32 arithmetic of the fusing can cause.

    Half a unit in the last place of the value, ``eps / 2 * |W + s B A|``, or half the smallest subnormal number; and
    for a sum of rank + 1 terms in float32 ``(rank + 2) eps32 (|W| + s |B| |A|)``.

    Args:
        trained: What was trained.
        name: Of the tensor.
        after: The exact value, float64.
        dtype: Of the written tensor.

    Returns:
        Float64, of the shape of ``after``.
    """
    info = torch.finfo(dtype)
    bound = 0.5 * info.eps * after.abs() + info.smallest_normal * info.eps
    if name in trained.layout.factors:
        a, b = (factor.to(EXACT).abs() for factor in trained.factors(name))
        terms = trained.stored(name).to(EXACT).abs() + trained.scaling.value * (b @ a)
        bound += (trained.scaling.rank + 2) * torch.finfo(torch.float32).eps * terms
    return 1.01 * bound
