# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Guards against errors that fail silently elsewhere, behind verl's own `compute_advantage`."""

from __future__ import annotations

import logging
import math

import numpy as np
import pytest
import torch
import verl  # noqa: F401  loads the plugin by its entry point
from omegaconf import OmegaConf
from verl.protocol import DataProto
from verl.trainer.ppo.ray_trainer import compute_advantage

from epgrpo_verl.plugin import EPGRPOPluginError, guards, preflight
from epgrpo_verl.plugin.feed import Feed, feeding

VOCABULARY = 50
ON = OmegaConf.create({"adv_estimator": "ep_grpo", "norm_adv_by_std_in_grpo": True})
OFF = OmegaConf.merge(ON, {"ep_grpo": {"guards": False}})
PER_TOKEN = ("entropy", "old_log_probs", "ref_log_prob")


@pytest.fixture(autouse=True)
def start_afresh(monkeypatch):
    preflight.warn_once.cache_clear()
    monkeypatch.setattr(guards, "_zero_ratio_calls", 0)


@pytest.fixture
def sampled() -> dict:
    """Four groups of four rows of 4 to 30 tokens, sampled from softmax distributions from sharp to flat."""
    generator = torch.Generator().manual_seed(3)
    rows, width = 16, 30
    lengths = torch.randint(4, width + 1, (rows,), generator=generator)
    lengths[0], lengths[1] = 30, 11
    scale = torch.rand(rows, width, 1, generator=generator) * 8
    log_p = (torch.randn(rows, width, VOCABULARY, generator=generator) * scale).log_softmax(-1)
    token = torch.multinomial(log_p.exp().view(-1, VOCABULARY), 1, generator=generator).view(rows, width, 1)
    mask = (torch.arange(width) < lengths.unsqueeze(1)).long()
    rewards = torch.zeros(rows, width)
    rewards[torch.arange(rows), lengths - 1] = (torch.rand(rows, generator=generator) > 0.5).float()
    return {
        "token_level_rewards": rewards,
        "response_mask": mask,
        "entropy": -(log_p.exp() * log_p).sum(-1) * mask,
        "old_log_probs": log_p.gather(-1, token).squeeze(-1) * mask,
        "ref_log_prob": log_p.gather(-1, token).squeeze(-1) * mask,
        "uid": np.array([str(row % 4) for row in range(rows)], dtype=object),
    }


def estimate(batch: dict, config=ON, **feed) -> None:
    tensors = {name: value for name, value in batch.items() if name != "uid"}
    with feeding(Feed(**feed)):
        compute_advantage(DataProto.from_dict(tensors, {"uid": batch["uid"]}), "ep_grpo", config=config)


def test_a_sound_batch_passes_in_every_precision(sampled, caplog):
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        batch = {**sampled, **{name: sampled[name].to(dtype) for name in PER_TOKEN}}
        with caplog.at_level(logging.WARNING, logger="epgrpo_verl"):
            estimate(batch, step=1, max_entropy=math.log(VOCABULARY))
    assert not caplog.records


def test_the_bounds_hold_and_are_reached():
    """A token of probability p: the rest on one other token, or spread evenly."""
    p = torch.tensor([0.001, 0.3, 0.5, 0.9, 1.0], dtype=torch.float64)
    low, high = guards.entropy_bounds(p.log(), math.log(VOCABULARY))
    for i, value in enumerate(p.tolist()):
        two = -sum(q * math.log(q) for q in (value, 1 - value) if q > 0)
        even = [value] + [(1 - value) / (VOCABULARY - 1)] * (VOCABULARY - 1)
        spread = -sum(q * math.log(q) for q in even if q > 0)
        assert low[i].item() == pytest.approx(two, abs=1e-12)
        assert spread <= high[i].item() <= spread + (1 - value) * 0.03


@pytest.mark.parametrize("field", ["entropy", "old_log_probs"])
def test_two_rows_of_unequal_length_swapped_in_one_field_are_caught(sampled, field):
    sampled[field][[0, 1]] = sampled[field][[1, 0]]
    with pytest.raises(
        EPGRPOPluginError, match="entropy and old_log_probs are not from the same tokens: in row 0.*dynamic"
    ):
        estimate(sampled, max_entropy=math.log(VOCABULARY))
    estimate(sampled, OFF)


def test_the_padding_of_a_shorter_row_is_caught_where_entropies_are_alike(sampled):
    """A policy close to uniform, for which the bounds alone say nothing."""
    mask = sampled["response_mask"]
    uniform = torch.full(mask.shape, math.log(VOCABULARY))
    sampled |= {"entropy": uniform * mask, "old_log_probs": -uniform * mask, "ref_log_prob": -uniform * mask}
    estimate(sampled, max_entropy=math.log(VOCABULARY))
    sampled["entropy"][[0, 1]] = sampled["entropy"][[1, 0]]
    with pytest.raises(EPGRPOPluginError, match="in row 0"):
        estimate(sampled, max_entropy=math.log(VOCABULARY))


def test_entropy_in_the_order_of_another_micro_batch_split_is_caught(sampled):
    """What dynamic batch size did in verl <= 0.4: log-probs put back in order, entropy left sorted by length."""
    order = sampled["response_mask"].sum(dim=1).argsort()
    sampled["entropy"] = sampled["entropy"][order]
    with pytest.raises(EPGRPOPluginError, match="not from the same tokens"):
        estimate(sampled)


def test_entropy_at_another_temperature_is_caught(sampled):
    sampled["entropy"] = sampled["entropy"].clamp(max=0.05)
    with pytest.raises(EPGRPOPluginError, match="not from the same tokens.*another temperature"):
        estimate(sampled)


@pytest.mark.parametrize("field", ["old_log_probs", "ref_log_prob"])
def test_a_positive_log_prob_is_named_with_row_and_column(sampled, field):
    sampled[field][2, 3] = 3.0
    with pytest.raises(
        EPGRPOPluginError, match=rf"{field} must not be above 0, got 3 in row 2, column 3.*use_fused_kernels"
    ):
        estimate(sampled)
    estimate(sampled, OFF)


def test_an_entropy_above_that_of_the_vocabulary_is_caught(sampled):
    sampled["entropy"][5, 2] = math.log(VOCABULARY) + 0.4
    with pytest.raises(ValueError, match=r"entropy is above the largest possible.*row 5, column 2"):
        estimate(sampled, max_entropy=math.log(VOCABULARY))
    estimate(sampled, OFF, max_entropy=math.log(VOCABULARY))
    estimate(sampled, max_entropy=None)


def test_garbage_on_masked_tokens_is_no_matter(sampled):
    for name in PER_TOKEN:
        sampled[name] = torch.where(sampled["response_mask"] == 0, 1e4, sampled[name])
    estimate(sampled, max_entropy=math.log(VOCABULARY))


def test_a_log_ratio_of_zero_for_many_batches_is_warned_about_once(sampled, caplog):
    moved = {**sampled, "ref_log_prob": sampled["ref_log_prob"] - 0.01}
    with caplog.at_level(logging.WARNING, logger="epgrpo_verl"):
        for _ in range(guards.ZERO_RATIO_CALLS - 1):
            estimate(sampled)
        estimate(moved)  # starts the count again
        for _ in range(guards.ZERO_RATIO_CALLS - 1):
            estimate(sampled)
        assert not caplog.records
        for _ in range(guards.ZERO_RATIO_CALLS + 1):
            estimate(sampled)
    assert len(caplog.records) == 1
    assert "exactly equal in the last 10 batches" in caplog.text and "adapter is not switched off" in caplog.text


@pytest.mark.parametrize(("step", "warned"), [(1, True), (2, False), (None, False)])
def test_a_policy_that_starts_away_from_the_reference_is_warned_about(sampled, caplog, step, warned):
    sampled["ref_log_prob"] = sampled["ref_log_prob"] - 0.5 * sampled["response_mask"]
    with caplog.at_level(logging.WARNING, logger="epgrpo_verl"):
        estimate(sampled, step=step)
    assert ("at step 1 the policy is already 0.5 nats" in caplog.text) == warned


@pytest.mark.parametrize("config", [ON, OFF], ids=["on", "off"])
def test_groups_of_one_are_warned_about_with_the_counts(sampled, caplog, config):
    sampled["uid"] = np.array([str(row) for row in range(16)], dtype=object)
    with caplog.at_level(logging.WARNING, logger="epgrpo_verl"):
        estimate(sampled, config)
    assert ("16 responses form 16 groups of one" in caplog.text) == (config is ON)


def test_the_switch_is_checked_and_kept_from_the_maths():
    maths, plugin = preflight.settings(OFF)
    assert not plugin.guards and maths == preflight.maths_config(ON)
    with pytest.raises(EPGRPOPluginError, match=r"algorithm.ep_grpo.guards must be true or false"):
        preflight.settings({"ep_grpo": {"guards": "no"}})
    with pytest.raises(EPGRPOPluginError, match=r"algorithm.ep_grpo.guard; did you mean algorithm.ep_grpo.guards"):
        preflight.settings({"ep_grpo": {"guard": False}})


def test_the_vocabulary_size_is_read_from_the_models_config(tmp_path):
    from transformers import Qwen2Config

    Qwen2Config(vocab_size=VOCABULARY).save_pretrained(tmp_path)
    config = OmegaConf.create({"actor_rollout_ref": {"model": {"path": str(tmp_path)}}})
    assert guards.log_vocabulary_size(config) == pytest.approx(math.log(VOCABULARY))
    config.actor_rollout_ref.model.path = str(tmp_path / "nothing here")
    assert guards.log_vocabulary_size(config) is None
