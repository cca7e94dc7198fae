# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Batches that the tests of the algorithm share."""

import random
from dataclasses import dataclass

import pytest
import torch


@dataclass
class Batch:
    """Inputs of `ep_grpo_advantage`, in its order."""

    token_level_rewards: torch.Tensor
    response_mask: torch.Tensor
    entropy: torch.Tensor
    old_log_probs: torch.Tensor
    ref_log_prob: torch.Tensor
    index: list

    def args(self):
        return tuple(vars(self).values())


@pytest.fixture
def make_batch():
    """Makes a batch with ragged masks with holes, interleaved groups, a collapsed group, a rejected and a padding row.

    Values are multiples of 1/64 so that every dtype holds them exactly: what differs between dtypes is the maths.
    """

    def make(seed=0, groups=3, rollouts=4, columns=12, dtype=torch.float32, rewards=(0.0, 1.0)):
        generator = random.Random(seed)
        index = [f"uid-{g}" for g in range(groups) for _ in range(rollouts)] + [f"pad{seed}"]
        generator.shuffle(index)
        rows = len(index)

        def table(low, high):
            return torch.tensor(
                [[generator.randint(low, high) / 64 for _ in range(columns)] for _ in range(rows)], dtype=dtype
            )

        mask = torch.zeros(rows, columns, dtype=torch.int64)
        scores = torch.zeros(rows, columns, dtype=dtype)
        rejected = generator.choice([i for i in range(rows) if index[i].startswith("uid")])
        for i in range(rows):
            length = generator.randint(2, columns)
            for t in range(length):
                mask[i, t] = generator.random() < 0.8
            # The outcome stands on the last token, whether or not that token is masked.
            scores[i, length - 1] = generator.choice(rewards)
            if index[i] == "uid-0":
                scores[i, length - 1] = rewards[-1]
            if mask[i].sum() == 0:
                mask[i, 0] = 1
            if i == rejected or index[i].startswith("pad"):
                mask[i] = 0
        old = table(-192, -1)
        return Batch(scores, mask, table(0, 128), old, old + table(-16, 16), index)

    return make
