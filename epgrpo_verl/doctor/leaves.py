# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The single values of a config, and the keys that lead to each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omegaconf import DictConfig, OmegaConf

Path = tuple[Any, ...]
"""The keys, and the indices of lists, that lead to a value."""
NOTHING = object()
"""Stands for a value that is not there; None is a value."""


def leaves(plain: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value of nested dicts and lists with the keys and indices that lead to it; an empty one is a value."""
    if not isinstance(plain, (dict, list)) or not plain:
        yield path, plain
        return
    for key, value in plain.items() if isinstance(plain, dict) else enumerate(plain):
        yield from leaves(value, (*path, key))


def written(config: DictConfig) -> dict[Path, Any]:
    """Every value of a config as it is written there: ``???``, and interpolations that are not resolved."""
    return dict(leaves(OmegaConf.to_container(config)))


def parent_of(config: DictConfig, path: Path) -> Any:
    """The section or list of a config that holds the value at the end of a path."""
    for key in path[:-1]:
        config = config[key]
    return config


def dotted(path: Path) -> str:
    """The key of a value as in an override: ``data.train_batch_size``."""
    return ".".join(map(str, path))


def at(plain: Any, path: Path) -> Any:
    """What nested dicts and lists have at a path, a whole section or a single value, or `NOTHING`."""
    for key in path:
        if not (isinstance(plain, dict) and key in plain or isinstance(plain, list) and key in range(len(plain))):
            return NOTHING
        plain = plain[key]
    return plain
