# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The estimator behind verl's own `compute_advantage`, on verl's own batch type."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import verl  # noqa: F401  loads the plugin by its entry point
from omegaconf import OmegaConf
from verl.protocol import DataProto
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.trainer.ppo.v1.utils import MetricsAggregator, compute_advantage_for_multi_trajectories

from epgrpo_verl import EPGRPOConfig, ep_grpo_advantage
from epgrpo_verl.plugin import EPGRPOPluginError
from epgrpo_verl.plugin.estimator import SECONDS, compute_ep_grpo_outcome_advantage
from epgrpo_verl.plugin.feed import Feed, feeding

ALGORITHM = OmegaConf.create({"adv_estimator": "ep_grpo", "norm_adv_by_std_in_grpo": True, "gamma": 1.0, "lam": 1.0})
PER_TOKEN = ("entropy", "old_log_probs", "ref_log_prob")


def data_proto(batch: dict, *without: str) -> DataProto:
    """verl's batch of these tensors, without some of them."""
    tensors = {name: value for name, value in batch.items() if name not in ("uid", *without)}
    return DataProto.from_dict(tensors, {"uid": batch["uid"]})


def expected(batch: dict, config: EPGRPOConfig | None = None, norm: bool = True) -> torch.Tensor:
    names = ("token_level_rewards", "response_mask", *PER_TOKEN)
    return ep_grpo_advantage(*(batch[name] for name in names), batch["uid"], config, norm).advantages


def test_verl_calls_it_with_entropy_and_log_probs_of_the_batch(batch):
    out = compute_advantage(data_proto(batch), "ep_grpo", config=ALGORITHM)
    torch.testing.assert_close(out.batch["advantages"], expected(batch), rtol=0, atol=0)
    torch.testing.assert_close(out.batch["returns"], out.batch["advantages"], rtol=0, atol=0)
    row = out.batch["advantages"][0][batch["response_mask"][0] == 1]
    assert len(row.unique()) == len(row), "a token-level advantage must not be spread over the row"


def test_the_hooks_feed_wins_over_the_batch_and_gets_result_and_metrics(batch):
    feed = Feed({"entropy": batch["entropy"]}, step=3)
    with feeding(feed):
        out = compute_advantage_for_multi_trajectories(
            data_proto(batch, "entropy"), batch_keys=[], adv_estimator="ep_grpo", config=ALGORITHM
        )
    torch.testing.assert_close(out.batch["advantages"], expected(batch), rtol=0, atol=0)
    assert feed.result.advantages is out.batch["advantages"]
    assert feed.metrics["ep_grpo/zero_variance_groups/share"] == 0.5
    assert 0 < feed.metrics[SECONDS] < 60


def test_batch_and_non_tensor_batch_as_arguments_give_the_same(batch):
    kwargs = {
        "token_level_rewards": batch["token_level_rewards"],
        "response_mask": batch["response_mask"],
        "index": batch["uid"],
        "config": ALGORITHM,
    }
    fields = {name: batch[name] for name in PER_TOKEN}
    passed, _ = compute_ep_grpo_outcome_advantage(**kwargs, batch=fields, non_tensor_batch={"uid": batch["uid"]})
    with feeding(Feed(dict(fields))):
        fed, _ = compute_ep_grpo_outcome_advantage(**kwargs, an_argument_of_tomorrow=1)
    torch.testing.assert_close(passed, fed, rtol=0, atol=0)


@pytest.mark.parametrize("norm", [True, False])
def test_norm_adv_by_std_is_read_from_the_config(batch, norm):
    config = OmegaConf.merge(ALGORITHM, {"norm_adv_by_std_in_grpo": norm})
    out = compute_advantage(data_proto(batch), "ep_grpo", config=config)
    torch.testing.assert_close(out.batch["advantages"], expected(batch, norm=norm), rtol=0, atol=0)
    assert not torch.equal(expected(batch, norm=True), expected(batch, norm=False))


def test_knobs_are_read_from_algorithm_ep_grpo(batch):
    config = OmegaConf.merge(ALGORITHM, {"ep_grpo": {"num_buckets": 3, "gamma": 1.0}})
    out = compute_advantage(data_proto(batch), "ep_grpo", config=config)
    maths = EPGRPOConfig(num_buckets=3, gamma=1.0)
    torch.testing.assert_close(out.batch["advantages"], expected(batch, maths), rtol=0, atol=0)


def test_all_off_is_verls_grpo(batch):
    off = {"gate": False, "progress": False}
    config = OmegaConf.merge(ALGORITHM, {"ep_grpo": off})
    ours = compute_advantage(data_proto(batch), "ep_grpo", config=config).batch["advantages"]
    grpo = compute_advantage(data_proto(batch), "grpo", config=ALGORITHM).batch["advantages"]
    torch.testing.assert_close(ours, grpo, rtol=0, atol=1e-6)


def test_grpo_is_the_same_to_the_bit_with_the_hooks_on(batch):
    hooked = compute_advantage(data_proto(batch), core_algos.AdvantageEstimator.GRPO, config=ALGORITHM)
    plain = compute_advantage.__wrapped__(data_proto(batch), core_algos.AdvantageEstimator.GRPO, config=ALGORITHM)
    assert torch.equal(hooked.batch["advantages"], plain.batch["advantages"])


def test_permuted_rows_give_permuted_advantages(batch):
    order = torch.randperm(9, generator=torch.Generator().manual_seed(1))
    permuted = {k: v[order.numpy()] if isinstance(v, np.ndarray) else v[order] for k, v in batch.items()}
    ours = compute_advantage(data_proto(permuted), "ep_grpo", config=ALGORITHM).batch["advantages"]
    torch.testing.assert_close(ours, expected(batch)[order], rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("entropy", "algorithm.rollout_correction.bypass_mode=False"),
        ("old_log_probs", "algorithm.rollout_correction.bypass_mode=False"),
        ("ref_log_prob", "actor_rollout_ref.actor.use_kl_loss=True"),
    ],
)
def test_a_missing_input_is_named_with_the_line_to_change(batch, missing, words):
    with pytest.raises(EPGRPOPluginError, match=f"{missing} did not reach the estimator.*{words}"):
        compute_advantage(data_proto(batch, missing), "ep_grpo", config=ALGORITHM)


def test_without_progress_entropy_is_enough(batch):
    config = OmegaConf.merge(ALGORITHM, {"ep_grpo": {"progress": False}})
    out = compute_advantage(data_proto(batch, "old_log_probs", "ref_log_prob"), "ep_grpo", config=config)
    torch.testing.assert_close(out.batch["advantages"], expected(batch, EPGRPOConfig(progress=False)))


def test_nan_on_a_valid_token_names_tensor_row_and_column(batch):
    batch["entropy"][2, 5] = float("nan")
    with pytest.raises(ValueError, match="entropy.*row 2.*column 5"):
        compute_advantage(data_proto(batch), "ep_grpo", config=ALGORITHM)


def test_the_last_output_of_a_session_votes_once_and_all_get_its_outcome(batch):
    """Session u_0 has two outputs, u_1 one: a group of two sessions, not of three rows."""
    three = {name: value[:3].clone() if torch.is_tensor(value) else value[:3] for name, value in batch.items()}
    three["uid"] = np.array(["u", "u", "u"], dtype=object)
    three["token_level_rewards"].zero_()
    three["token_level_rewards"][1, 3] = 1.0
    feed = Feed({"entropy": three["entropy"]}, keys=["u_0_0", "u_0_1", "u_1_0"])
    with feeding(feed):
        compute_advantage(data_proto(three, "entropy"), "ep_grpo", config=ALGORITHM)
    # rewards 1 and 0: mean 0.5, sample std 0.7071
    torch.testing.assert_close(feed.result.outcome_advantage, torch.tensor([1.0, 1.0, -1.0]) * 0.5 / (0.5**0.5 + 1e-6))
    assert feed.result.votes.tolist() == [False, True, True]


def test_metrics_keep_their_meaning_in_verls_aggregator(batch):
    """V1 merges several updates of a step by the metric's name: of ours only the seconds may be summed."""
    feed = Feed()
    with feeding(feed):
        compute_advantage(data_proto(batch), "ep_grpo", config=ALGORITHM)
    aggregator = MetricsAggregator()
    for name in feed.metrics:
        kind = aggregator._get_aggregation_type(name)
        last = name if name == SECONDS else name.rsplit("/", 1)[-1]
        wanted = {"min": "min", "max": "max", "abs_max": "max", SECONDS: "time_sum"}
        assert kind == wanted.get(last, "weighted_avg"), name
