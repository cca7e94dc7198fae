# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The model before and after training, tensor by tensor, by the names of the Hugging Face model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from .checkpoint import Checkpoint
from .errors import MergeError
from .lora import Layout, Scaling, find_scaling, fuse, lay_out


@dataclass(frozen=True)
class Trained:
    """What a checkpoint stands for.

    Attributes:
        checkpoint: Its tensors, by verl's names.
        layout: Where they go.
        scaling: Of the adapter; None without LoRA.
        base: Tensors of the model that the training started from, by the model's names. None if only the checkpoint is
            known; a LoRA checkpoint usually holds its base.
    """

    checkpoint: Mapping[str, torch.Tensor]
    layout: Layout
    scaling: Scaling | None
    base: Mapping[str, torch.Tensor] | None

    @property
    def names(self) -> set[str]:
        """Names of all tensors of the trained model."""
        names = set(self.layout.weights)
        if self.layout.factors and self.base is not None:
            names |= set(self.base)
        return names

    def factors(self, name: str) -> tuple[torch.Tensor, torch.Tensor]:
        """A, of shape (rank, in), and B, of shape (out, rank), of an adapted weight."""
        a, b = self.layout.factors[name]
        return self.checkpoint[a], self.checkpoint[b]

    def stored(self, name: str) -> torch.Tensor:
        """The weight itself, without its adapter: from the checkpoint, or from the base where that left it out."""
        if name in self.layout.weights:
            return self.checkpoint[self.layout.weights[name]]
        return self.base[name]

    def before(self, name: str) -> torch.Tensor:
        """The weight before training."""
        return self.stored(name) if self.base is None else self.base[name]

    def after(self, name: str, dtype: torch.dtype) -> torch.Tensor:
        """The weight after training, the adapter fused, computed in ``dtype``. Integers stay what they are."""
        weight = self.stored(name)
        if name in self.layout.factors:
            return fuse(weight, *self.factors(name), self.scaling.value, dtype)
        return weight.to(dtype) if weight.is_floating_point() else weight


def read_trained(actor: Path, base: Mapping[str, torch.Tensor] | None, alpha: float | None = None) -> Trained:
    """Reads a checkpoint, and checks that its parts fit each other.

    Args:
        actor: Folder of the shards.
        base: See `Trained`.
        alpha: LoRA's alpha, instead of what the checkpoint says.

    Raises:
        MergeError: They do not fit, or the base is needed and not given.
    """
    checkpoint = Checkpoint(actor)
    layout = lay_out(checkpoint)
    if not layout.factors:
        if alpha is not None:
            raise MergeError("--lora-alpha is given, and the checkpoint holds no LoRA adapter")
        if base is None:
            raise MergeError(
                "this checkpoint holds all weights and not what they were before, so a change cannot be proved. "
                "Name the model that the training started from: --base MODEL"
            )
        return Trained(checkpoint, layout, None, base)
    if base is None:
        lost = sorted(set(layout.factors) - set(layout.weights))
        if lost:
            raise MergeError(
                f"this checkpoint holds an adapter alone (save_lora_only): {lost[0]} and {len(lost) - 1} more "
                "weights are not in it. Name the model that the training started from: --base MODEL"
            )
    scaling = find_scaling(actor, (checkpoint[a].shape[0] for a, _ in layout.factors.values()), alpha)
    trained = Trained(checkpoint, layout, scaling, base)
    for name in layout.factors:
        _check_shapes(trained, name)
    return trained


def _check_shapes(trained: Trained, name: str) -> None:
    if name not in trained.names:
        raise MergeError(f"the adapter is on {name}, which neither the checkpoint nor the base has")
    weight, (a, b) = trained.stored(name), trained.factors(name)
    if weight.ndim != 2 or (b.shape[0], a.shape[1]) != tuple(weight.shape) or a.shape[0] != b.shape[1]:
        raise MergeError(
            f"B {tuple(b.shape)} times A {tuple(a.shape)} does not fit {name} {tuple(weight.shape)}. "
            "Is --base the model that was trained?"
        )
