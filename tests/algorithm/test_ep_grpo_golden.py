# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Values worked by hand."""

import math

import pytest
import torch

from epgrpo_verl import EPGRPOConfig, ep_grpo_advantage


def rewards_on_last(values, columns):
    rewards = torch.zeros(len(values), columns)
    rewards[:, -1] = torch.tensor(values)
    return rewards


def test_two_responses_two_tokens():
    # One group of two, two tokens each, gamma = ln 3, lambda = 1, eta = 0.2, K = 2.
    #
    # (1) r = 1, 0: mean 0.5, sample std sqrt(0.5) = 0.707107.  A = +-0.5 / 0.707108 = +-0.707106.
    # (2) H = 1, 3 in both rows: mu 2, sigma 1.  W = sigmoid(-+ln 3) = 1/4, 3/4.
    #     A_outcome = +-0.176776, +-0.530329.
    # (4) S = 1, 4: tau = 0.25, 1.  floor(2 tau) = 0, 2 -> buckets 0, 1.
    # (5) l: bucket 0 holds 0.1, 0.3: mu 0.2, sigma 0.1.  z = -+0.1 / 0.1001 = -+0.999001.
    #        bucket 1 holds 0.5, 0.1: mu 0.3, sigma 0.2.  z = +-0.2 / 0.2001 = +-0.999500.
    # (6) d = +1, -1.
    # (7) row 0: 0.2 * 1/4 * -0.999001 = -0.049950;  0.2 * 3/4 * 0.999500 = 0.149925.
    #     row 1: d and z both change sign, so the same two numbers.
    # (8) row 0: 0.126826, 0.680254.  row 1: -0.226726, -0.380404.
    result = ep_grpo_advantage(
        rewards_on_last([1.0, 0.0], 2),
        torch.ones(2, 2),
        torch.tensor([[1.0, 3.0], [1.0, 3.0]]),
        torch.tensor([[-1.0, -1.0], [-1.0, -1.0]]),
        torch.tensor([[-1.1, -1.5], [-1.3, -1.1]]),
        ["a", "a"],
        EPGRPOConfig(gamma=math.log(3), lam=1.0, num_buckets=2),
    )

    def close(actual, expected):
        torch.testing.assert_close(actual, torch.tensor(expected), rtol=0, atol=2e-6)

    close(result.outcome_advantage, [0.707106, -0.707106])
    close(result.gate, [[0.25, 0.75], [0.25, 0.75]])
    close(result.outcome, [[0.176776, 0.530329], [-0.176776, -0.530329]])
    close(result.progress_coordinate, [[0.25, 1.0], [0.25, 1.0]])
    assert result.bucket.tolist() == [[0, 1], [0, 1]]
    assert result.anchor.tolist() == [1.0, -1.0]
    close(result.progress, [[-0.049950, 0.149925], [-0.049950, 0.149925]])
    close(result.advantages, [[0.126826, 0.680254], [-0.226726, -0.380404]])
    # Slope: eta W d lambda / (sigma_b + eps) = 0.2 / 4 / 0.1001, 0.2 * 3 / 4 / 0.2001.
    slope = torch.tensor([[0.499500, 0.749625], [-0.499500, -0.749625]])
    torch.testing.assert_close(result.progress_slope, slope, rtol=0, atol=4e-6)


def test_collapsed_group_learns_from_progress_alone():
    # One group, both right: A = 0 exactly, d = sign(1 - 0.5) = +1.  Equal entropies: W = 1/2.
    # K = 1: one bucket with l = 0, 0.2, 0.2, 0.4, s = 0.1 l: mu 0.02, sigma sqrt(2 * 0.02^2 / 4) = 0.0141421.
    # z = -+0.02 / 0.0142421 = -+1.404285, and 0 in between.  A = 0.2 * 1/2 * z = -+0.140429.
    args = (
        torch.ones(2, 2),
        torch.full((2, 2), 0.7),
        torch.tensor([[-1.0, -1.0], [-1.0, -1.0]]),
        torch.tensor([[-1.0, -1.2], [-1.2, -1.4]]),
        ["a", "a"],
        EPGRPOConfig(num_buckets=1),
    )
    right = ep_grpo_advantage(rewards_on_last([1.0, 1.0], 2), *args)
    expected = torch.tensor([[-0.140429, 0.0], [0.0, 0.140429]])
    torch.testing.assert_close(right.advantages, expected, rtol=0, atol=2e-6)
    assert torch.count_nonzero(right.outcome) == 0
    assert right.zero_variance.tolist() == [True, True]
    # Both wrong, with 0/1 and with -1/+1 rewards: d = -1, the signs turn round.
    for reward in (0.0, -1.0):
        wrong = ep_grpo_advantage(rewards_on_last([reward, reward], 2), *args)
        torch.testing.assert_close(wrong.advantages, -expected, rtol=0, atol=2e-6)


def test_tool_tokens_do_not_advance_progress():
    # Valid entropies 1, 1, 2 of a total of 4; the tool's two tokens in between have no say.
    # tau = 0.25, 0.5, 1.  K = 4: floor(1), floor(2), min(floor(4), 3) -> 1, 2, 3.
    result = ep_grpo_advantage(
        rewards_on_last([1.0], 5),
        torch.tensor([[1, 0, 0, 1, 1]]),
        torch.tensor([[1.0, 9.0, 9.0, 1.0, 2.0]]),
        torch.zeros(1, 5),
        torch.zeros(1, 5),
        ["a"],
        EPGRPOConfig(num_buckets=4),
    )
    assert result.progress_coordinate.tolist() == [[0.25, 0.0, 0.0, 0.5, 1.0]]
    assert result.bucket.tolist() == [[1, -1, -1, 2, 3]]


@pytest.mark.parametrize(
    "scope, expected",
    [
        # H = 1, 3 (group a), 5, 7 (group b); gamma = ln 3.
        # Group and sequence: each has sigma 1, so -1 and +1 std: 1/4, 3/4.
        ("group", [[0.25, 0.75], [0.25, 0.75]]),
        ("sequence", [[0.25, 0.75], [0.25, 0.75]]),
        # Batch: mu 4, sigma sqrt(5): -3/sqrt 5, -1/sqrt 5, ... -> 1 / (1 + 3^(3/sqrt 5)) = 0.186344,
        # 1 / (1 + 3^(1/sqrt 5)) = 0.379584, and their complements.
        ("batch", [[0.186344, 0.379584], [0.620416, 0.813656]]),
    ],
)
def test_scope_of_the_entropy(scope, expected):
    result = ep_grpo_advantage(
        rewards_on_last([1.0, 0.0], 2),
        torch.ones(2, 2),
        torch.tensor([[1.0, 3.0], [5.0, 7.0]]),
        torch.zeros(2, 2),
        torch.zeros(2, 2),
        ["a", "b"],
        EPGRPOConfig(gamma=math.log(3), entropy_scope=scope),
    )
    torch.testing.assert_close(result.gate, torch.tensor(expected), rtol=0, atol=2e-6)


def test_normalized_gate_keeps_the_scale():
    # W = 1/4, 3/4 and a third token at the mean, 1/2: mean 1/2, so W becomes 1/2, 3/2, 1.
    # H = 0, 2, 1: mu 1, sigma sqrt(2/3); gamma = ln 3 sqrt(2/3) puts one std times gamma at ln 3.
    result = ep_grpo_advantage(
        rewards_on_last([1.0], 3),
        torch.ones(1, 3),
        torch.tensor([[0.0, 2.0, 1.0]]),
        torch.zeros(1, 3),
        torch.zeros(1, 3),
        ["a"],
        EPGRPOConfig(gamma=math.log(3) * math.sqrt(2 / 3), gate_normalize=True),
    )
    torch.testing.assert_close(result.gate, torch.tensor([[0.5, 1.5, 1.0]]), rtol=0, atol=4e-6)


def test_clip_bounds_the_advantage_and_stops_its_slope():
    args = (
        rewards_on_last([1.0, 0.0], 2),
        torch.ones(2, 2),
        torch.tensor([[1.0, 3.0], [1.0, 3.0]]),
        torch.full((2, 2), -1.0),
        torch.tensor([[-1.1, -1.5], [-1.3, -1.1]]),
        ["a", "a"],
    )
    # The first golden case: 0.126826, 0.680254 / -0.226726, -0.380404, cut at 0.3.
    result = ep_grpo_advantage(*args, EPGRPOConfig(gamma=math.log(3), lam=1.0, num_buckets=2, advantage_clip=0.3))
    expected = torch.tensor([[0.126826, 0.3], [-0.226726, -0.3]])
    torch.testing.assert_close(result.advantages, expected, rtol=0, atol=2e-6)
    assert (result.progress_slope == 0).tolist() == [[False, True], [False, True]]
    assert result.progress[0, 1] > 0.1
