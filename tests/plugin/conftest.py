# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the plugin's tests: verl's own config, composed as its trainer does, and batches in its own types."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

sys.path.append(str(Path(__file__).parents[1] / "algorithm"))  # for slow_reference, also where only this folder is run

GRPO_CONFIG = (
    "algorithm.adv_estimator=grpo",
    "data.train_files=train.parquet",
    "data.val_files=test.parquet",
    "data.train_batch_size=8",
    "actor_rollout_ref.model.path=model",
    "actor_rollout_ref.actor.ppo_mini_batch_size=8",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.rollout.n=4",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4",
    "trainer.n_gpus_per_node=1",
)
"""A GRPO config that works without a KL term: it says nothing about the reference policy."""


@pytest.fixture
def verl_config() -> Callable[..., DictConfig]:
    """Composes verl's own trainer config from Hydra overrides, after those of `GRPO_CONFIG`."""
    import verl.trainer

    folder = os.path.join(os.path.dirname(verl.trainer.__file__), "config")

    def build(*overrides: str) -> DictConfig:
        with initialize_config_dir(folder, version_base=None):
            return compose("ppo_trainer", [*GRPO_CONFIG, *overrides])

    return build


@pytest.fixture
def batch() -> dict:
    """Two interleaved groups of four ragged rows, the second group with equal rewards, and a padding row."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.tensor([7, 4, 9, 5, 3, 8, 6, 9, 0])
    mask = (torch.arange(9) < lengths.unsqueeze(1)).long()
    rewards = torch.zeros(9, 9)
    for row, reward in enumerate([1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0]):
        rewards[row, lengths[row] - 1] = reward
    uid = np.array([*["a", "b"] * 4, "pad0"], dtype=object)
    return {
        "token_level_rewards": rewards,
        "response_mask": mask,
        "entropy": torch.rand(9, 9, generator=generator) * 2,
        "old_log_probs": -torch.rand(9, 9, generator=generator),
        "ref_log_prob": -torch.rand(9, 9, generator=generator),
        "uid": uid,
    }


@pytest.fixture(scope="session")
def assets(tmp_path_factory) -> Path:
    """Folder of the quickstart's tiny model and data, made once."""
    from epgrpo_verl.quickstart.prepare import prepare
    from epgrpo_verl.quickstart.task import DIFFICULTIES

    folder = tmp_path_factory.mktemp("assets")
    prepare(folder, DIFFICULTIES["easy"], num_train=64, num_test=8)
    return folder
