# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Replacements, positions and losses, by hand and against brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from epgrpo_verl.diagnose.perturbation import Trial, check_something_to_lose, choose_positions, perturbation
from epgrpo_verl.diagnose.policy import replace_tokens, token_entropy
from epgrpo_verl.diagnose.ratio import estimate_of_sums, positive_ratio, ratio_of_sums
from epgrpo_verl.evaluation.errors import EvaluationError

LOGITS = st.lists(st.floats(-8, 8, width=32), min_size=2, max_size=12)


@given(LOGITS, st.floats(0.3, 3))
@settings(deadline=None)
def test_entropy_is_that_of_the_distribution_that_is_sampled_from(logits, temperature):
    weights = [math.exp(value / temperature) for value in logits]
    shares = [weight / sum(weights) for weight in weights]
    expected = -sum(share * math.log(share) for share in shares)
    assert token_entropy(torch.tensor(logits), temperature).item() == pytest.approx(expected, abs=1e-5)


def test_an_impossible_token_has_no_entropy():
    assert token_entropy(torch.tensor([0.0, 0.0, -torch.inf]), 1.0).item() == pytest.approx(math.log(2))


@given(LOGITS, st.floats(0.3, 3), st.data())
@settings(deadline=None)
def test_replacements_are_drawn_from_the_policy_without_the_original(logits, temperature, data):
    original = data.draw(st.integers(0, len(logits) - 1))
    draws = 2000
    uniforms = (torch.arange(draws, dtype=torch.float64) + 0.5) / draws
    rows = torch.tensor(logits).expand(draws, -1)
    tokens, probs = replace_tokens(rows, torch.full((draws,), original), uniforms, temperature)
    weights = np.array([math.exp(value / temperature) for value in logits])
    others = weights.copy()
    others[original] = 0
    shares = np.bincount(tokens.numpy(), minlength=len(logits)) / draws
    assert shares[original] == 0
    assert np.abs(shares - others / others.sum()).max() <= 1 / draws + 1e-4
    assert np.allclose(probs.numpy(), (weights / weights.sum())[tokens.numpy()], atol=1e-5)


def test_a_certain_token_can_be_replaced_as_well():
    logits = torch.tensor([[60.0, 0.0, 1.0]])
    tokens, probs = replace_tokens(logits, torch.tensor([0]), torch.tensor([0.9], dtype=torch.float64), 1.0)
    assert tokens.item() == 2
    assert 0 < probs.item() < 1e-20


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.integers(0, 2**64 - 1))
def test_positions_are_of_their_kind_and_repeat(high, seed):
    found = choose_positions(high, seed)
    for kind, wanted in (("high", True), ("low", False)):
        if wanted in high:
            assert high[found[kind]] is wanted
        else:
            assert found[kind] is None
    assert found == choose_positions(high, seed)


def test_every_position_of_a_kind_is_drawn():
    high = [True, False, True, False, False]
    found = [choose_positions(high, seed) for seed in range(200)]
    assert {one["high"] for one in found} == {0, 2}
    assert {one["low"] for one in found} == {1, 3, 4}


def trial(problem, kind, control, replaced, won=True, entropy=1.0, prob=0.1):
    return Trial(problem, kind, won, control, replaced, entropy, prob)


def test_losses_by_hand():
    trials = [
        *(trial(0, "high", True, False), trial(0, "high", True, False), trial(1, "high", True, True, won=False)),
        *(trial(0, "low", True, True), trial(0, "low", False, True), trial(1, "low", True, False, won=False)),
        *(trial(1, "low", True, False, prob=0.3),),
    ]
    found = perturbation(trials)
    high, low = found.all.high, found.all.low
    assert (high.trials, high.control.value, high.replaced.value) == (3, 1, pytest.approx(1 / 3))
    assert high.lost.value == pytest.approx(2 / 3)
    assert low.lost.value == pytest.approx((0 - 1 + 1 + 1) / 4)
    assert low.replacement_prob == pytest.approx(0.1)
    assert found.all.ratio.value == pytest.approx((2 / 3) / (1 / 4))
    assert found.right.high.lost.value == 1
    assert found.right.low.lost.value == pytest.approx(0)
    assert found.right.ratio is None, "nothing is lost at tokens of low entropy"


def test_a_gain_at_tokens_of_low_entropy_makes_no_ratio():
    trials = [trial(0, "high", True, False), trial(0, "low", False, True)]
    assert perturbation(trials).all.ratio is None


def test_a_kind_that_is_not_there():
    found = perturbation([trial(0, "low", True, False, won=False), trial(1, "low", True, False, won=False)])
    assert found.all.high is None and found.all.ratio is None
    assert found.all.low.lost == (1, 1, 1)
    assert found.right.low is None


def test_nothing_to_lose():
    check_something_to_lose([False, True])
    with pytest.raises(EvaluationError, match="none of the 3 responses is right.*--grader"):
        check_something_to_lose([False] * 3)


COUNTS = st.lists(st.tuples(st.integers(0, 8), st.integers(1, 8)), min_size=2, max_size=30)


@given(COUNTS)
@settings(max_examples=30, deadline=None)
def test_a_ratio_lies_in_its_interval_and_is_that_of_the_sums(pairs):
    tops, bottoms = zip(*pairs, strict=True)
    found = ratio_of_sums(tops, bottoms, 200)
    assert found.value == pytest.approx(sum(tops) / sum(bottoms))
    quotients = [top / bottom for top, bottom in pairs]
    assert min(quotients) - 1e-9 <= found.low <= found.high <= max(quotients) + 1e-9


def test_the_interval_narrows_with_the_root_of_the_problems():
    rng = np.random.default_rng(1)
    widths = []
    for problems in (100, 1600):
        found = ratio_of_sums(rng.integers(0, 2, problems), [1] * problems)
        widths.append(found.high - found.low)
        assert widths[-1] == pytest.approx(2 * 1.96 * 0.5 / math.sqrt(problems), rel=0.15)
    assert widths[0] / widths[1] == pytest.approx(4, rel=0.2)


def test_when_there_is_no_ratio_and_when_no_interval():
    assert ratio_of_sums([1, 2], [0, 0]) is None
    assert ratio_of_sums([1, 2], [1, -1]) is None
    assert ratio_of_sums([], []) is None
    assert ratio_of_sums([1], [2]) == (0.5, None, None)
    # A draw of eight problems leaves out the only one that counts with probability (7/8)^8, a third.
    assert ratio_of_sums([1] + [0] * 7, [2] + [0] * 7) == (0.5, None, None)
    # Of many, so seldom that the interval stays.
    assert ratio_of_sums([1] * 30, [2] * 30) == (0.5, 0.5, 0.5)
    assert estimate_of_sums([[3, 3], [2, 2]], lambda sums: positive_ratio(*sums)) == (1.5, 1.5, 1.5)
