# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Same tensors, same bits: run after run, and for any number of threads (verl-project/verl#3126)."""

import pytest
import torch

from epgrpo_verl import EPGRPOConfig, ep_grpo_advantage, ep_grpo_metrics


@pytest.fixture
def set_threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def large_batch(rows, columns, dtype):
    """Large enough for torch to split the work."""
    torch.manual_seed(0)
    lengths = torch.randint(1, columns + 1, (rows, 1))
    mask = (torch.arange(columns) < lengths) & (torch.rand(rows, columns) < 0.9)
    rewards = torch.zeros(rows, columns, dtype=dtype)
    rewards[:, -1] = torch.randint(0, 2, (rows,)).to(dtype)
    entropy, old = 2 * torch.rand(rows, columns, dtype=dtype), -3 * torch.rand(rows, columns, dtype=dtype)
    ref = old + 0.1 * torch.randn(rows, columns, dtype=dtype)
    return rewards, mask, entropy, old, ref, [f"g{i % (rows // 8 or 1)}" for i in range(rows)]


@pytest.mark.parametrize("shape", [(256, 1111), (2000, 97), (8, 40001), (1, 70001)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "settings", [{}, {"entropy_scope": "batch", "bucket_scope": "batch", "gate_normalize": True}], ids=str
)
def test_same_bits_for_any_number_of_threads(set_threads, shape, dtype, settings):
    batch = large_batch(*shape, dtype)
    outcomes = []
    for threads in (1, 8, 3, 8):
        set_threads(threads)
        result = ep_grpo_advantage(*batch, EPGRPOConfig(**settings))
        outcomes.append((result, ep_grpo_metrics(result, batch[2])))
    first, first_metrics = outcomes[0]
    for result, metrics in outcomes[1:]:
        for name, value in first.tensors().items():
            assert torch.equal(getattr(result, name), value), name
        assert metrics == first_metrics


def test_inputs_are_left_as_they_were(make_batch):
    batch = make_batch(0)
    copies = [x.clone() for x in batch.args()[:-1]]
    ep_grpo_advantage(*batch.args())
    assert all(torch.equal(a, b) for a, b in zip(batch.args()[:-1], copies, strict=True))
