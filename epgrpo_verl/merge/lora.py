# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The LoRA adapter in a checkpoint: which tensors belong together, its scaling, and how it is fused."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from .errors import MergeError

PREFIX = "base_model.model."
_FACTOR = re.compile(r"(?P<module>.+)\.lora_(?P<factor>[AB])\.(?P<adapter>[^.]+)\.weight")
META, ADAPTER_CONFIG = "lora_train_meta.json", "lora_adapter/adapter_config.json"


def fuse(weight: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scaling: float, dtype: torch.dtype) -> torch.Tensor:
    """``W + scaling * B A`` (Hu et al., arXiv 2106.09685, section 4.1), computed in ``dtype``.

    Args:
        weight: W, of shape (out, in).
        a: Of shape (rank, in).
        b: Of shape (out, rank).
        scaling: ``alpha / rank``.
        dtype: Of the computation and of the result.
    """
    return weight.to(dtype) + scaling * (b.to(dtype) @ a.to(dtype))


@dataclass(frozen=True)
class Layout:
    """Where each tensor of the checkpoint goes.

    Attributes:
        weights: Name in the Hugging Face model to the name in the checkpoint.
        factors: Name of an adapted weight in the Hugging Face model to the names of its A and B in the checkpoint.
    """

    weights: dict[str, str] = field(default_factory=dict)
    factors: dict[str, tuple[str, str]] = field(default_factory=dict)


def lay_out(names: Iterable[str]) -> Layout:
    """Sorts the tensors of a checkpoint into weights and LoRA factors.

    Raises:
        MergeError: A tensor belongs to an adapter of another kind, or a factor has no partner.
    """
    layout, pairs, adapters = Layout(), {}, set()
    for name in names:
        plain = name.removeprefix(PREFIX)
        match = _FACTOR.fullmatch(plain)
        if match:
            target = f"{match['module'].replace('.base_layer', '')}.weight"
            pairs.setdefault(target, {})[match["factor"]] = name
            adapters.add(match["adapter"])
        elif re.search(r"\.(lora_|modules_to_save\.|original_module\.|adapter_)", plain):
            raise MergeError(f"{name} is not of a LoRA on a linear map, which is all that this command fuses")
        else:
            layout.weights[plain.replace(".base_layer.", ".")] = name
    if len(adapters) > 1:
        raise MergeError(f"the checkpoint holds {len(adapters)} adapters ({', '.join(sorted(adapters))}), not one")
    for target, pair in pairs.items():
        if len(pair) != 2:
            raise MergeError(f"{next(iter(pair.values()))} has no partner: LoRA's A and B come in pairs")
        layout.factors[target] = (pair["A"], pair["B"])
    return layout


@dataclass(frozen=True)
class Scaling:
    """The factor in front of ``B A``.

    Attributes:
        rank: Rank of the factors.
        alpha: LoRA's alpha.
        value: ``alpha / rank``, or ``alpha / sqrt(rank)`` for rank-stabilised LoRA.
        source: Where alpha was found.
    """

    rank: int
    alpha: float
    value: float
    source: str


def find_scaling(actor: Path, ranks: Iterable[int], alpha: float | None = None) -> Scaling:
    """Finds the adapter's scaling in the files that verl saved beside the shards.

    verl 0.9 writes ``lora_train_meta.json``, older versions ``lora_adapter/adapter_config.json``.

    Args:
        actor: Folder of the checkpoint.
        ranks: Ranks of all factors in the checkpoint.
        alpha: Used instead of what the files say.

    Raises:
        MergeError: The files are missing, name no alpha above 0, or contradict the tensors or each other.
    """
    found = sorted(set(ranks))
    if len(found) != 1:
        raise MergeError(f"the adapter has factors of ranks {found}: only one rank for all is fused")
    rank = found[0]
    if alpha is not None:
        if not (math.isfinite(alpha) and alpha > 0):
            raise MergeError(f"--lora-alpha is {alpha}, and has to be above 0")
        return Scaling(rank, alpha, alpha / rank, "--lora-alpha")
    given = "Give the run's actor_rollout_ref.model.lora_alpha as --lora-alpha."
    settings = {name: _read(actor / name) for name in (META, ADAPTER_CONFIG) if (actor / name).is_file()}
    if not settings:
        raise MergeError(f"neither {META} nor {ADAPTER_CONFIG} is in {actor}, so LoRA's alpha is unknown. {given}")
    for name, values in settings.items():
        if values.get("r") != rank:
            raise MergeError(f"{name} says r={values.get('r')}, the factors have rank {rank}. {given}")
        if not isinstance(values.get("lora_alpha"), int | float) or not values["lora_alpha"] > 0:
            raise MergeError(f"{name} says lora_alpha={values.get('lora_alpha')}, which would fuse nothing. {given}")
        for key in ("use_dora", "rank_pattern", "alpha_pattern"):
            if values.get(key):
                raise MergeError(f"{name} sets {key}, which this command does not fuse")
    alphas = {name: values["lora_alpha"] for name, values in settings.items()}
    if len(set(alphas.values())) > 1:
        raise MergeError(f"two files name two alphas: {', '.join(f'{n} {a}' for n, a in alphas.items())}. {given}")
    source, value = next(iter(alphas.items()))
    stabilised = any(values.get("use_rslora") for values in settings.values())
    return Scaling(rank, value, value / (math.sqrt(rank) if stabilised else rank), source)


def _read(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise MergeError(f"{path} is not JSON: {error}") from error
    if not isinstance(values, Mapping):
        raise MergeError(f"{path} does not hold settings")
    return dict(values)
