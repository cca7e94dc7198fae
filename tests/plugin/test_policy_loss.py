# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""`policy_loss.loss_mode=ep_grpo` in verl's own `ppo_loss`, against the slow reference where the policy has moved."""

from __future__ import annotations

import math

import pytest
import torch
import verl  # noqa: F401  loads the plugin by its entry point
import verl.workers.engine_workers as engine_workers
from omegaconf import OmegaConf
from slow_reference import slow_ep_grpo
from tensordict import TensorDict
from verl.protocol import DataProto
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.utils.tensordict_utils import assign_non_tensor_data
from verl.workers.config import FSDPActorConfig

from epgrpo_verl.plugin import EPGRPOPluginError
from epgrpo_verl.plugin.policy_loss import SLOPE, refreshed_advantage

ALGORITHM = OmegaConf.create({"adv_estimator": "ep_grpo", "norm_adv_by_std_in_grpo": True})
BASES = ("vanilla", "gspo", "cispo", "geo_mean", "gpg", "sapo", "dppo_tv")


@pytest.fixture
def actor_config():
    """verl's actor config with a policy loss, as the actor's workers build it."""

    def build(loss_mode: str) -> FSDPActorConfig:
        return FSDPActorConfig(
            strategy="fsdp2",
            rollout_n=4,
            ppo_mini_batch_size=8,
            ppo_micro_batch_size_per_gpu=8,
            policy_loss={"_target_": "verl.workers.config.PolicyLossConfig", "loss_mode": loss_mode},
        )

    return build


@pytest.fixture
def moved(batch) -> torch.Tensor:
    """Log-probs (bs, T) of a policy that has moved, each token by its own step."""
    step = torch.randn(batch["old_log_probs"].shape, generator=torch.Generator().manual_seed(7)) * 0.05
    return batch["old_log_probs"] + step


def with_advantages(batch: dict) -> dict:
    """The batch after verl's compute_advantage, as the V0 trainers hand it on, with the slope."""
    tensors = {name: value for name, value in batch.items() if name != "uid"}
    data = DataProto.from_dict(tensors, {"uid": batch["uid"]}, meta_info={"ep_grpo_feed": {"wants_slope": True}})
    return dict(compute_advantage(data, "ep_grpo", config=ALGORITHM).batch.items())


def ppo_loss(config, batch: dict, log_prob: torch.Tensor, nested: bool = False) -> tuple[torch.Tensor, dict]:
    """verl's loss of one micro-batch, through the name that the actor's workers hold.

    Args:
        config: verl's actor config.
        batch: Padded tensors (rows, T), as in V0.
        log_prob: (rows, T) what the model computes now.
        nested: Lay everything out as V1 does: rows as long as their responses.
    """
    rows, width = log_prob.shape
    lengths = batch["response_mask"].sum(dim=1).tolist() if nested else [width] * rows

    def jagged(tensors):
        return torch.nested.as_nested_tensor(list(tensors), layout=torch.jagged)

    def responses(value):
        return jagged(row[:n] for row, n in zip(value, lengths, strict=True)) if nested else value

    # Prompts of one token. verl shifts by one: the model's output at position t is about token t + 1.
    output = {"log_probs": jagged(torch.cat([r[:n], r.new_zeros(1)]) for r, n in zip(log_prob, lengths, strict=True))}
    prompts, tokens = torch.ones(rows, 1, dtype=torch.int64), torch.ones(rows, width, dtype=torch.int64)
    names = ("response_mask", "old_log_probs", "advantages", SLOPE)
    data = TensorDict({name: responses(batch[name]) for name in names if name in batch}, batch_size=rows)
    data["prompts"], data["responses"] = jagged(prompts) if nested else prompts, responses(tokens)
    if not nested:
        data["attention_mask"] = torch.ones(rows, width + 1, dtype=torch.int64)
    info = {"dp_size": 1, "batch_num_tokens": int(batch["response_mask"].sum()), "global_batch_size": rows}
    for name, value in info.items():
        assign_non_tensor_data(data, name, value)
    return engine_workers.ppo_loss(config, output, data)


def slow_refreshed(batch: dict, log_prob: torch.Tensor) -> torch.Tensor:
    """A(theta) from the equations: gate, anchor, mean and std of the buckets as before, s with the current policy."""
    names = ("token_level_rewards", "response_mask", "entropy", "old_log_probs", "ref_log_prob")
    slow = slow_ep_grpo(*(batch[name] for name in names), batch["uid"])
    mask, lam, eta, eps = batch["response_mask"], 0.1, 0.2, 1e-4
    signal = lam * (batch["old_log_probs"] - batch["ref_log_prob"])
    result = torch.zeros(mask.shape, dtype=torch.float64)
    rows, columns = mask.shape
    for i in range(rows):
        for t in range(columns):
            if not mask[i, t]:
                continue
            bucket = [
                float(signal[j, u])
                for j in range(rows)
                for u in range(columns)
                if mask[j, u] and batch["uid"][j] == batch["uid"][i] and slow["bucket"][j, u] == slow["bucket"][i, t]
            ]
            mean = math.fsum(bucket) / len(bucket)
            std = math.sqrt(math.fsum((s - mean) ** 2 for s in bucket) / len(bucket))
            now = lam * float(log_prob[i, t] - batch["ref_log_prob"][i, t])
            z = (now - mean) / (std + eps) if len(set(bucket)) > 1 else 0.0
            result[i, t] = slow["outcome"][i, t] + eta * slow["gate"][i, t] * slow["anchor"][i] * z
    return result


def test_the_advantage_follows_a_policy_that_has_moved(batch, moved):
    data = with_advantages(batch)
    ours = refreshed_advantage(data["advantages"], data[SLOPE], moved, batch["old_log_probs"])
    expected = slow_refreshed(batch, moved)
    torch.testing.assert_close(ours.double(), expected, rtol=1e-4, atol=1e-5)
    assert (expected - data["advantages"]).abs().max() > 0.01, "nothing moved, so nothing was tested"
    assert not refreshed_advantage(data["advantages"], data[SLOPE], moved.requires_grad_(), moved).requires_grad


@pytest.mark.parametrize("base", BASES)
def test_the_loss_is_the_base_loss_with_the_refreshed_advantages(batch, moved, actor_config, base):
    """Value and gradient of verl's ppo_loss, base by base."""
    data = with_advantages(batch)
    mode = "ep_grpo" if base == "vanilla" else f"ep_grpo/{base}"
    log_prob = moved.clone().requires_grad_()
    loss, metrics = ppo_loss(actor_config(mode), data, log_prob)
    loss.backward()
    plain = {**data, "advantages": slow_refreshed(batch, moved).float()}
    base_log_prob = moved.clone().requires_grad_()
    expected, _ = ppo_loss(actor_config(base), plain, base_log_prob)
    expected.backward()
    torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(log_prob.grad, base_log_prob.grad, rtol=1e-3, atol=1e-6)
    assert base_log_prob.grad.abs().max() > 0
    change = (plain["advantages"] - data["advantages"]).abs().sum() / batch["response_mask"].sum()
    assert metrics["actor/ep_grpo/refresh_abs_mean"].values[0] == pytest.approx(change.item(), rel=1e-3)


@pytest.mark.parametrize("base", BASES)
def test_on_the_first_on_policy_update_it_is_the_base_loss_to_the_bit(batch, actor_config, base):
    data = with_advantages(batch)
    losses = [ppo_loss(actor_config(mode), data, batch["old_log_probs"])[0] for mode in (f"ep_grpo/{base}", base)]
    assert torch.equal(*losses)


def test_a_micro_batch_of_nested_rows_gives_the_same(batch, moved, actor_config):
    """V1's workers get nested rows, each as long as its own response; here none is as long as the batch is wide."""
    rows = [0, 1, 3, 4]
    data = {name: value[rows] for name, value in with_advantages(batch).items()}
    padded, _ = ppo_loss(actor_config("ep_grpo"), data, moved[rows])
    nested, _ = ppo_loss(actor_config("ep_grpo"), data, moved[rows], nested=True)
    torch.testing.assert_close(nested, padded)


@pytest.mark.parametrize("mode", ["ep_grpo", "ep_grpo/gspo"])
def test_without_the_slope_the_loss_says_what_to_set(batch, actor_config, mode):
    data = with_advantages(batch)
    del data[SLOPE]
    base = {"ep_grpo": "vanilla", "ep_grpo/gspo": "gspo"}[mode]
    with pytest.raises(EPGRPOPluginError, match=rf"adv_estimator=ep_grpo.*policy_loss.loss_mode={base}"):
        ppo_loss(actor_config(mode), data, batch["old_log_probs"])


def test_called_outside_of_ppo_loss_it_says_so(batch):
    loss = core_algos.get_policy_loss_fn("ep_grpo")
    with pytest.raises(EPGRPOPluginError, match="outside of verl's ppo_loss"):
        loss(batch["old_log_probs"], batch["old_log_probs"], batch["entropy"], batch["response_mask"])


def test_other_losses_do_not_see_the_slope(batch, moved, actor_config):
    data = with_advantages(batch)
    with_slope, metrics = ppo_loss(actor_config("vanilla"), data, moved)
    del data[SLOPE]
    assert torch.equal(with_slope, ppo_loss(actor_config("vanilla"), data, moved)[0])
    assert not any("ep_grpo" in name for name in metrics)


def test_a_loss_registered_later_can_be_a_base_as_well(batch, moved, actor_config):
    @core_algos.register_policy_loss("mean_advantage")
    def mean_advantage(old_log_prob, log_prob, advantages, response_mask, **kwargs):
        return (advantages * response_mask).sum(), {}

    try:
        loss, _ = ppo_loss(actor_config("ep_grpo/mean_advantage"), with_advantages(batch), moved)
        torch.testing.assert_close(loss.double(), slow_refreshed(batch, moved).sum(), rtol=1e-4, atol=1e-4)
        assert "ep_grpo/ep_grpo/mean_advantage" not in core_algos.POLICY_LOSS_REGISTRY
    finally:
        for name in ("mean_advantage", "ep_grpo/mean_advantage"):
            del core_algos.POLICY_LOSS_REGISTRY[name]


def test_garbage_on_masked_tokens_does_not_reach_the_loss(batch, moved):
    data = with_advantages(batch)
    log_prob = torch.where(batch["response_mask"] == 0, torch.nan, moved)
    ours = refreshed_advantage(data["advantages"], data[SLOPE], log_prob, batch["old_log_probs"])
    assert torch.isfinite(ours).all()
