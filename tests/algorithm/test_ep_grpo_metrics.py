# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What is logged."""

import math

import pytest
import torch

from epgrpo_verl import EPGRPOConfig, ep_grpo_advantage, ep_grpo_metrics
from epgrpo_verl.algorithm import METRICS


def metrics_of(rewards, index, mask=None, entropy=None, log_ratio=None, **settings):
    rewards = torch.tensor(rewards)
    mask = torch.ones_like(rewards) if mask is None else torch.tensor(mask)
    entropy = torch.ones_like(rewards) if entropy is None else torch.tensor(entropy)
    old = torch.zeros_like(rewards) if log_ratio is None else torch.tensor(log_ratio)
    result = ep_grpo_advantage(rewards, mask, entropy, old, torch.zeros_like(old), index, EPGRPOConfig(**settings))
    metrics = ep_grpo_metrics(result, entropy)
    return {name.removeprefix("ep_grpo/"): value for name, value in metrics.items()}


def test_every_metric_is_documented_and_every_documented_one_comes(make_batch):
    batch = make_batch(0)
    metrics = ep_grpo_metrics(ep_grpo_advantage(*batch.args()), batch.entropy)
    assert set(metrics) == set(METRICS)
    assert all(text.strip() for text in METRICS.values())


def test_groups_of_every_kind():
    # a: mixed; b: all right; c: all wrong; d: all at theta, neither; e: one row; f: no valid token, no group.
    index = ["a", "a", "b", "b", "c", "c", "d", "d", "e", "f"]
    rewards = [[1.0], [0.0], [1.0], [1.0], [0.0], [0.0], [0.5], [0.5], [1.0], [1.0]]
    m = metrics_of(rewards, index, mask=[[1]] * 9 + [[0]])
    assert m["groups/count"] == 5
    assert m["groups/of_one_share"] == 1 / 5
    assert m["zero_variance_groups/share"] == 3 / 5
    assert m["zero_variance_groups/all_right_share"] == 1 / 5
    assert m["zero_variance_groups/all_wrong_share"] == 1 / 5


def test_two_percentages_for_ten_groups():
    # jsboige/CoursIA#10603: uniform groups are common with few rollouts; tell all right and all wrong apart.
    index = [str(g) for g in range(10) for _ in range(2)]
    rewards = [[1.0], [1.0]] * 3 + [[0.0], [0.0]] * 5 + [[0.0], [1.0]] * 2
    m = metrics_of(rewards, index)
    assert (m["zero_variance_groups/all_right_share"], m["zero_variance_groups/all_wrong_share"]) == (0.3, 0.5)


def test_every_row_a_group_of_its_own_shows():
    # rllm-org/rllm#605: rollouts of one prompt that were never grouped.
    assert metrics_of([[1.0], [0.0], [1.0]], ["a", "b", "c"])["groups/of_one_share"] == 1.0


def test_tokens_with_signal_only_from_the_zero_variance_rule():
    # Group a is mixed. Group b is all right, 4 valid tokens in one bucket with l = 0, 0.5, 1, mean 0.5 and 1 masked:
    # the middle one has z = 0, so 2 of the 7 valid tokens. Without the rule none.
    rewards = [[1.0, 0.0], [0.0, 0.0], [1.0, 0.0], [1.0, 0.0]]
    log_ratio = [[0.1, 0.2], [0.3, 0.4], [0.0, 0.5], [1.0, 9.0]]
    mask = [[1, 1], [1, 1], [1, 1], [1, 0]]
    args = (rewards, ["a", "a", "b", "b"], mask)
    m = metrics_of(*args, log_ratio=log_ratio, num_buckets=1)
    assert m["zero_variance_tokens/share"] == 2 / 7
    m = metrics_of(*args, log_ratio=log_ratio, num_buckets=1, zero_variance=False)
    assert m["zero_variance_tokens/share"] == 0


def test_moments_over_valid_tokens_only():
    # Valid entropies 1, 2, 3: mean 2, population std sqrt(2/3). Log-ratios 0, -0.3, 0.6: mean 0.1, std sqrt(0.14).
    nan = float("nan")
    m = metrics_of(
        [[0.0, 1.0], [0.0, 0.0]],
        ["a", "a"],
        mask=[[1, 1], [1, 0]],
        entropy=[[1.0, 2.0], [3.0, nan]],
        log_ratio=[[0.0, -0.3], [0.6, nan]],
        gamma=0.0,
    )
    assert m["entropy/mean"] == pytest.approx(2)
    assert m["entropy/std"] == pytest.approx(math.sqrt(2 / 3))
    assert m["log_ratio/mean"] == pytest.approx(0.1)
    assert m["log_ratio/std"] == pytest.approx(math.sqrt(0.14))
    assert m["log_ratio/abs_max"] == pytest.approx(0.6)
    assert (m["gate/min"], m["gate/mean"], m["gate/max"]) == (0.5, 0.5, 0.5)


def test_gate_extremes_and_progress_size():
    m = metrics_of(
        [[0.0, 1.0], [0.0, 1.0]],
        ["a", "a"],
        entropy=[[1.0, 3.0], [1.0, 3.0]],
        log_ratio=[[0.0, 0.0], [0.2, 0.4]],
        gamma=math.log(3),
        lam=1.0,
        num_buckets=2,
    )
    # W = 1/4, 3/4. Two buckets, |z| = 0.1 / 0.1001 and 0.2 / 0.2001; |A_progress| = 0.2 W |z| = 0.049950, 0.149925.
    assert (m["gate/min"], m["gate/mean"], m["gate/max"]) == pytest.approx((0.25, 0.5, 0.75), abs=1e-5)
    assert m["progress/abs_mean"] == pytest.approx((0.049950 + 0.149925) / 2, abs=1e-5)
    assert (m["bucket_occupancy/min"], m["bucket_occupancy/max"]) == (2, 2)


def test_sign_flips():
    # A_outcome = +-0.7071 * 1/2 = +-0.3536. One bucket, l = 0, 1 | 0, 0: mu 0.25, sigma sqrt(3)/4, so z = -0.577 for
    # the three zeros and 1.73 for the 1 (0.2 % less for the eps). A_progress = eta / 2 * d * z.
    # eta = 1: the zeros move by 0.288 against their outcome, too little; the 1 moves along with it. No flip.
    # eta = 3: the zeros move by 0.864 and flip: row 0 has one, row 1 two. 3 of 4.
    args = ([[0.0, 1.0], [0.0, 0.0]], ["a", "a"])
    log_ratio = [[0.0, 1.0], [0.0, 0.0]]
    assert metrics_of(*args, log_ratio=log_ratio, num_buckets=1, eta=1.0)["sign_flips/share"] == 0
    assert metrics_of(*args, log_ratio=log_ratio, num_buckets=1, eta=3.0)["sign_flips/share"] == 3 / 4
    # Tokens without an outcome part, those of zero-variance groups, are no flips.
    m = metrics_of([[0.0, 1.0], [0.0, 1.0]], ["a", "a"], log_ratio=log_ratio, num_buckets=1, eta=3.0)
    assert m["sign_flips/share"] == 0
    assert m["zero_variance_tokens/share"] == 1


def test_bucket_occupancy_follows_the_scope():
    # Equal entropies, K = 2: three tokens split 1 + 2 (tau = 1/3, 2/3, 1), two split 0 + 2 (tau = 1/2, 1).
    args = ([[0.0] * 3, [0.0] * 3], ["a", "b"], [[1, 1, 1], [1, 1, 0]])
    m = metrics_of(*args, num_buckets=2)
    assert (m["bucket_occupancy/min"], m["bucket_occupancy/max"]) == (0, 2)
    m = metrics_of(*args, num_buckets=2, bucket_scope="batch")
    assert (m["bucket_occupancy/min"], m["bucket_occupancy/max"]) == (1, 4)
    # A group without a valid token has no empty buckets.
    m = metrics_of([[0.0] * 3, [0.0] * 3], ["a", "pad"], [[1, 1, 1], [0, 0, 0]], num_buckets=2)
    assert (m["bucket_occupancy/min"], m["bucket_occupancy/max"]) == (1, 2)


def test_padding_never_counts(make_batch):
    # allenai/open-instruct#756: an entropy metric that lacked the mask. 3 pad rows and 1000 pad columns.
    batch = make_batch(1)
    before = ep_grpo_metrics(ep_grpo_advantage(*batch.args()), batch.entropy)
    for value in (0.0, float("nan")):
        wide = [torch.nn.functional.pad(x, (0, 1000, 0, 3), value=0.0) for x in batch.args()[:2]]
        wide += [torch.nn.functional.pad(x, (0, 1000, 0, 3), value=value) for x in batch.args()[2:5]]
        after = ep_grpo_metrics(ep_grpo_advantage(*wide, [*batch.index, "pad1", "pad2", "pad3"]), wide[2])
        assert after == pytest.approx(before, rel=1e-6)


def test_batch_of_padding_only_is_all_zeros():
    m = metrics_of([[1.0], [0.0]], ["pad1", "pad2"], mask=[[0], [0]])
    assert set(m.values()) == {0.0}
    assert all(type(value) is float for value in m.values())


def test_metrics_of_missing_inputs_are_left_out():
    ones = torch.ones(2, 1)
    config = EPGRPOConfig(gate=False, progress=False)
    metrics = ep_grpo_metrics(ep_grpo_advantage(ones, ones, None, None, None, ["a", "a"], config))
    assert set(METRICS) - set(metrics) == {name for name in METRICS if "/entropy/" in name or "/log_ratio/" in name}


def test_names_are_combined_as_meant():
    # verl's aggregator looks for these words anywhere in a name.
    from verl.trainer.ppo.v1.utils import MetricsAggregator

    aggregator = MetricsAggregator()
    for name in METRICS:
        wanted = {"min": "min", "max": "max", "abs_max": "max"}.get(name.rsplit("/", 1)[1], "weighted_avg")
        assert aggregator._get_aggregation_type(name) == wanted, name
