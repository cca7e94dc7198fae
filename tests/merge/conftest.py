# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import saved
import torch


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Qwen2 in float32."""
    return saved.save_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="session")
def lora(base: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[torch.nn.Module, Path]:
    """A trained adapter, and its checkpoint by one process."""
    model = saved.train(base, lora=True)
    return model, saved.save_checkpoint(model, base, tmp_path_factory.mktemp("lora"))


@pytest.fixture(scope="session")
def full(base: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[torch.nn.Module, Path]:
    """A model with all weights trained, and its checkpoint by one process."""
    model = saved.train(base, lora=False)
    return model, saved.save_checkpoint(model, base, tmp_path_factory.mktemp("full"))


@pytest.fixture
def copy_of(tmp_path: Path) -> Callable[..., Path]:
    """Copies a checkpoint, and changes its tensors in the copy."""

    def copy(actor: Path, change: Callable[[str, torch.Tensor], None] | None = None) -> Path:
        other = tmp_path / "global_step_7" / "actor"
        shutil.copytree(actor, other)
        if change is not None:
            path = other / "model_world_size_1_rank_0.pt"
            state = torch.load(path, weights_only=False)
            for name, tensor in state.items():
                change(name, tensor.to_local().detach())
            torch.save(state, path)
        return other

    return copy
