# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The fast path equals the slow reference over options, dtypes, masks and groups."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from slow_reference import DEFAULTS, slow_ep_grpo

from epgrpo_verl import EPGRPOConfig, EPGRPOResult, ep_grpo_advantage, ep_grpo_metrics

FIELDS = (
    "advantages",
    "outcome",
    "progress",
    "gate",
    "progress_coordinate",
    "bucket",
    "progress_slope",
    "anchor",
    "zero_variance",
    "outcome_reward",
    "outcome_advantage",
)

# Inputs hold the same values in every dtype, so what is left is the maths in float32 and the rounding of the output.
TOLERANCE = {torch.float64: 1e-11, torch.float32: 2e-6, torch.bfloat16: 1e-2, torch.float16: 2e-3}


def assert_same(result: EPGRPOResult, slow: dict, tolerance: float) -> None:
    for name in FIELDS:
        fast = getattr(result, name).to(torch.float64).numpy()
        # One tolerance relative to the largest value: a slope is of the order of 1 / progress_eps.
        scale = max(1.0, np.abs(slow[name]).max())
        np.testing.assert_allclose(fast, slow[name], rtol=tolerance, atol=tolerance * scale, err_msg=name)


def test_settings_and_defaults_are_the_same_as_the_reference():
    assert {f.name: f.default for f in dataclasses.fields(EPGRPOConfig)} == DEFAULTS


SWITCHES = list(itertools.product([True, False], repeat=5))


@pytest.mark.parametrize("gate, progress, zero_variance, gate_progress, norm_adv_by_std", SWITCHES)
def test_switches(make_batch, gate, progress, zero_variance, gate_progress, norm_adv_by_std):
    settings = {
        "gate": gate,
        "progress": progress,
        "zero_variance": zero_variance,
        "gate_progress": gate_progress,
    }
    for seed in range(3):
        batch = make_batch(seed)
        result = ep_grpo_advantage(*batch.args(), EPGRPOConfig(**settings), norm_adv_by_std)
        slow = slow_ep_grpo(*batch.args(), norm_adv_by_std=norm_adv_by_std, **settings)
        assert_same(result, slow, TOLERANCE[torch.float32])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"num_buckets": 1},
        {"num_buckets": 3, "gamma": 0.5, "lam": 1.0, "eta": 0.7},
        {"num_buckets": 64},
        {"entropy_scope": "batch"},
        {"entropy_scope": "sequence"},
        {"bucket_scope": "batch"},
        {"entropy_scope": "sequence", "bucket_scope": "batch", "gate_normalize": True},
        {"gate_normalize": True},
        {"gate_normalize": True, "entropy_scope": "batch"},
        {"advantage_clip": 0.3},
        {"reward_threshold": 1.0},
        {"reward_threshold": -0.25},
        {"gate_eps": 0.1, "progress_eps": 0.01},
        {"zero_variance_atol": 0.6},
    ],
    ids=str,
)
def test_options_and_dtypes(make_batch, settings, dtype):
    for seed, rewards in enumerate([(0.0, 1.0), (-1.0, 1.0), (0.0, 0.25, 0.5, 1.0)]):
        batch = make_batch(seed + 10, dtype=dtype, rewards=rewards)
        result = ep_grpo_advantage(*batch.args(), EPGRPOConfig(**settings))
        assert result.advantages.dtype == dtype
        assert_same(result, slow_ep_grpo(*batch.args(), **settings), TOLERANCE[dtype])


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 2, 1), (1, 16, 5), (8, 2, 3), (2, 3, 200)], ids=str)
def test_shapes(make_batch, shape):
    groups, rollouts, columns = shape
    batch = make_batch(1, groups, rollouts, max(columns, 2))
    result = ep_grpo_advantage(*batch.args())
    assert_same(result, slow_ep_grpo(*batch.args()), TOLERANCE[torch.float32])


@pytest.mark.parametrize("tokens", [1, 25, 60])
def test_blocks_of_any_size_give_the_same(make_batch, monkeypatch, tokens):
    batch = make_batch(7)
    whole = ep_grpo_advantage(*batch.args(), EPGRPOConfig(gate_normalize=True))
    metrics = ep_grpo_metrics(whole, batch.entropy)
    monkeypatch.setattr("epgrpo_verl.algorithm.blocks.BLOCK_TOKENS", tokens)
    result = ep_grpo_advantage(*batch.args(), EPGRPOConfig(gate_normalize=True))
    for name, value in whole.tensors().items():
        torch.testing.assert_close(getattr(result, name), value, msg=lambda text, name=name: f"{name}: {text}")
    assert ep_grpo_metrics(result, batch.entropy) == pytest.approx(metrics)


@pytest.mark.parametrize("step", [0, 1, 3, 4, 100])
def test_warm_up_of_eta(make_batch, step):
    batch = make_batch(2)
    result = ep_grpo_advantage(*batch.args(), EPGRPOConfig(eta_warmup_steps=4), step=step)
    assert_same(result, slow_ep_grpo(*batch.args(), step=step, eta_warmup_steps=4), TOLERANCE[torch.float32])


@pytest.mark.parametrize("mask_dtype", [torch.bool, torch.int32, torch.int64, torch.float32, torch.bfloat16])
def test_dtype_of_the_mask(make_batch, mask_dtype):
    batch = make_batch(3)
    expected = ep_grpo_advantage(*batch.args()).advantages
    batch.response_mask = batch.response_mask.to(mask_dtype)
    assert torch.equal(ep_grpo_advantage(*batch.args()).advantages, expected)


def test_kind_of_the_index(make_batch):
    batch = make_batch(4)
    expected = ep_grpo_advantage(*batch.args()).advantages
    numbers = [sorted(set(batch.index)).index(uid) for uid in batch.index]
    for index in (np.array(batch.index, dtype=object), np.array(batch.index), numbers, torch.tensor(numbers)):
        batch.index = index
        assert torch.equal(ep_grpo_advantage(*batch.args()).advantages, expected)


def test_mixed_dtypes_compute_in_the_widest(make_batch):
    batch = make_batch(5)
    slow = slow_ep_grpo(*batch.args())
    batch.entropy = batch.entropy.to(torch.bfloat16)
    batch.old_log_probs = batch.old_log_probs.to(torch.float64)
    result = ep_grpo_advantage(*batch.args())
    assert result.advantages.dtype == torch.float32
    assert result.anchor.dtype == torch.float64
    assert_same(result, slow, TOLERANCE[torch.float32])


def test_sessions_with_several_outputs(make_batch):
    for seed in range(4):
        batch = make_batch(seed, groups=2, rollouts=9)
        # Every third row of a group closes a session that the two rows before it belong to.
        outcome_row = list(range(len(batch.index)))
        for uid in ("uid-0", "uid-1"):
            rows = [i for i, key in enumerate(batch.index) if key == uid]
            for k, row in enumerate(rows):
                outcome_row[row] = rows[k - k % 3 + 2]
        result = ep_grpo_advantage(*batch.args(), outcome_row=torch.tensor(outcome_row))
        slow = slow_ep_grpo(*batch.args(), outcome_row=outcome_row)
        assert_same(result, slow, TOLERANCE[torch.float32])


def test_nothing_requires_grad(make_batch):
    batch = make_batch(6)
    batch.old_log_probs.requires_grad_()
    result = ep_grpo_advantage(*batch.args())
    assert not any(value.requires_grad for value in result.tensors().values())
