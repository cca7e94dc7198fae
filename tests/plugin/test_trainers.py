# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What is wrapped of verl's trainers, without Ray: the data path of V0, and that other estimators see no difference."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import verl  # noqa: F401  loads the plugin by its entry point
import verl.trainer.ppo.ray_trainer as ray_trainer
from omegaconf import OmegaConf
from verl.protocol import DataProto

from epgrpo_verl import EPGRPOConfig, ep_grpo_advantage
from epgrpo_verl.algorithm import METRICS
from epgrpo_verl.plugin import policy_loss, trainer_v0, trainer_v1

CONFIG = OmegaConf.create(
    {
        "algorithm": {"adv_estimator": "ep_grpo", "ep_grpo": {"eta_warmup_steps": 10}},
        "actor_rollout_ref": {"actor": {"policy_loss": {"loss_mode": "ep_grpo"}}},
    }
)
GRPO = OmegaConf.merge(CONFIG, {"algorithm": {"adv_estimator": "grpo"}})


@pytest.fixture
def v0_batch(batch: dict) -> DataProto:
    """The batch as V0 has it before the actor computes the old log-probs."""
    rows, columns = batch["response_mask"].shape
    tensors = {name: batch[name] for name in ("token_level_rewards", "response_mask", "ref_log_prob")}
    tensors["token_level_scores"] = batch["token_level_rewards"]
    tensors["prompts"] = torch.ones(rows, 2, dtype=torch.int64)
    tensors["responses"] = torch.ones(rows, columns, dtype=torch.int64)
    tensors["attention_mask"] = torch.cat([tensors["prompts"], batch["response_mask"]], dim=1)
    return DataProto.from_dict(tensors, {"uid": batch["uid"]}, meta_info={"temperature": 1.0})


def test_v0_keeps_the_entropy_and_logs_the_metrics(batch, v0_batch):
    """The steps of `RayPPOTrainer.fit` from the old log-probs to the metrics, with verl's own functions."""

    def from_the_actor(self, data):
        output = {"old_log_probs": batch["old_log_probs"], "entropys": batch["entropy"]}
        return DataProto.from_dict(output), 0.5

    trainer = SimpleNamespace(config=CONFIG, global_steps=4)
    old_log_prob, mfu = trainer_v0.wrap_compute_old_log_prob(from_the_actor)(trainer, v0_batch)
    assert mfu == 0.5
    old_log_prob.batch.pop("entropys")
    data = v0_batch.union(old_log_prob)
    data = ray_trainer.compute_advantage(data, "ep_grpo", config=CONFIG.algorithm)

    names = ("token_level_rewards", "response_mask", "entropy", "old_log_probs", "ref_log_prob")
    config = EPGRPOConfig(eta_warmup_steps=10)
    expected = ep_grpo_advantage(*(batch[name] for name in names), batch["uid"], config, step=4)
    assert torch.equal(data.batch["advantages"], expected.advantages)
    assert torch.equal(data.batch[policy_loss.SLOPE], expected.progress_slope)
    logged = ray_trainer.compute_data_metrics(batch=data, use_critic=False)
    assert set(METRICS) <= set(logged) and "critic/advantages/mean" in logged
    data.to_tensordict()  # on its way to the actor's workers


def test_v0_sends_no_slope_where_the_policy_loss_does_not_need_it(v0_batch, batch):
    config = OmegaConf.merge(CONFIG, {"actor_rollout_ref": {"actor": {"policy_loss": {"loss_mode": "vanilla"}}}})
    trainer = SimpleNamespace(config=config, global_steps=4)
    output = DataProto.from_dict({"old_log_probs": batch["old_log_probs"], "entropys": batch["entropy"]})
    old_log_prob, _ = trainer_v0.wrap_compute_old_log_prob(lambda self, data: (output, 0.0))(trainer, v0_batch)
    data = ray_trainer.compute_advantage(v0_batch.union(old_log_prob), "ep_grpo", config=config.algorithm)
    assert policy_loss.SLOPE not in data.batch.keys()


WITH_GRPO = {
    "V0 old log-probs": (trainer_v0.wrap_compute_old_log_prob, (SimpleNamespace(config=GRPO), "batch")),
    "V1 advantage": (trainer_v1.wrap_compute_advantage, (SimpleNamespace(config=GRPO), "batch", {})),
    "advantage": (trainer_v0.wrap_compute_advantage, ("data", "grpo")),
    "metrics": (trainer_v0.wrap_compute_data_metrics, (SimpleNamespace(meta_info={}),)),
    "loss": (policy_loss.wrap_ppo_loss, (SimpleNamespace(policy_loss={"loss_mode": "vanilla"}), "output", "data")),
}


@pytest.mark.parametrize(("wrap", "args"), WITH_GRPO.values(), ids=WITH_GRPO)
def test_with_another_estimator_arguments_and_result_are_handed_on_as_they_are(wrap, args):
    calls, result = [], {"a": 1}

    def of_verl(*args, **kwargs):
        calls.append((args, kwargs))
        return result

    assert wrap(of_verl)(*args, more=2) is result
    assert calls == [(args, {"more": 2})] and result == {"a": 1}
