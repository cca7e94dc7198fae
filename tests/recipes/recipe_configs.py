# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The recipes of the paper's experiments, and the overrides that each of them gives to verl."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

RECIPES = Path(__file__).parents[2] / "recipes"
LIB = RECIPES / "lib"

NAMES = (
    "qwen2.5_3b_epgrpo",
    "qwen2.5_3b_epgrpo_no_gate",
    "qwen2.5_3b_epgrpo_no_progress",
    "qwen2.5_3b_epgrpo_no_zero_variance",
    "qwen2.5_3b_grpo",
    "qwen2.5_3b_grpo_high_temperature",
    "qwen2.5_3b_grpo_more_rollouts",
    "qwen2.5_7b_epgrpo",
    "qwen2.5_7b_epgrpo_megatron",
    "qwen2.5_7b_grpo",
)


def run(name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a recipe with only these variables and PATH and HOME in its environment."""
    base = {"PATH": os.environ["PATH"], "HOME": "/home/someone"}
    return subprocess.run(
        ["bash", str(RECIPES / f"run_{name}.sh"), *arguments], env=base | environment, capture_output=True, text=True
    )


def overrides(name: str, *arguments: str, **environment: str) -> list[str]:
    """The overrides that a recipe hands to verl."""
    done = run(name, *arguments, PRINT_OVERRIDES="1", **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@functools.cache
def composed(name: str, *arguments: str) -> DictConfig:
    """verl's own config, composed from a recipe's overrides. Shared between tests: not to be changed."""
    from epgrpo_verl.doctor.compose import compose_config

    config, checks = compose_config(overrides(name, *arguments))
    assert config is not None, checks
    return config


@functools.cache
def flat(name: str) -> dict[str, object]:
    """Every leaf of a recipe's config by its dotted key, interpolations resolved.

    Without the sections of a critic and a teacher, which no recipe uses and which only repeat values of others.
    """
    leaves: dict[str, object] = {}

    def walk(node: object, path: str) -> None:
        if isinstance(node, dict):
            for key, value in node.items():
                walk(value, f"{path}.{key}" if path else str(key))
        else:
            leaves[path] = node

    config = OmegaConf.to_container(composed(name), resolve=True)
    walk({key: value for key, value in config.items() if key not in ("critic", "distillation")}, "")
    return leaves


def difference(name: str, other: str) -> dict[str, tuple[object, object]]:
    """The keys in which two recipes' configs differ, without those that hold the recipe's name."""
    left, right = flat(name), flat(other)
    keys = {key for key in left.keys() | right.keys() if left.get(key) != right.get(key)}
    named = {key for key in keys if str(left.get(key)).replace(name, "") == str(right.get(key)).replace(other, "")}
    return {key: (left.get(key), right.get(key)) for key in keys - named}
