# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Entropy concentration, against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epgrpo_verl.diagnose.concentration import concentration, high_count, high_tokens
from epgrpo_verl.evaluation.errors import EvaluationError

ENTROPIES = st.lists(st.floats(0, 12), min_size=5, max_size=80).filter(lambda values: sum(values) > 1e-9)


@given(ENTROPIES)
def test_the_share_and_the_curve_are_those_of_the_sorted_tokens(values):
    found = concentration(values)
    ordered = sorted(values, reverse=True)
    top = ordered[: high_count(len(values))]
    assert found.top_share == pytest.approx(sum(top) / sum(values))
    assert found.threshold == min(top)
    assert found.mean == pytest.approx(sum(values) / len(values))
    for count in range(len(values) + 1):
        at_count = np.interp(count / len(values), found.fractions, found.shares)
        # The curve is drawn through a hundred points, so it can be below at the others, never above.
        assert at_count <= sum(ordered[:count]) / sum(values) + 1e-9
    assert (found.fractions[0], found.shares[0]) == (0, 0)
    assert (found.fractions[-1], found.shares[-1]) == (1, pytest.approx(1))
    slopes = np.diff(found.shares)
    assert (slopes >= -1e-12).all() and (np.diff(slopes) <= 1e-9).all(), "rising, and ever less so"


@given(ENTROPIES, st.randoms(use_true_random=False))
def test_the_order_of_the_tokens_says_nothing(values, random):
    shuffled = values[:]
    random.shuffle(shuffled)
    assert concentration(values).top_share == pytest.approx(concentration(shuffled).top_share)


@given(st.lists(st.floats(0, 12), min_size=1, max_size=80))
def test_no_token_of_low_entropy_is_above_one_of_high_entropy(values):
    high = high_tokens(values)
    assert high.sum() == high_count(len(values))
    if not high.all():
        assert np.array(values)[high].min() >= np.array(values)[~high].max()


def test_by_hand():
    assert [high_count(tokens) for tokens in (1, 5, 7, 8, 10, 100)] == [1, 1, 1, 2, 2, 20]
    assert concentration([1.0] * 10).top_share == pytest.approx(0.2)
    assert concentration([0.0] * 9 + [3.0]).top_share == 1
    found = concentration([4, 1, 1, 1, 1, 0, 0, 0, 0, 0])
    assert found.top_share == pytest.approx(5 / 8)
    assert found.shares[10] == pytest.approx(4 / 8)
    assert list(high_tokens([1, 2, 2, 2, 2, 2, 2, 2, 2, 0])) == [False, True, True] + [False] * 7


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0] * 4, "4 tokens are too few.*--limit.*-n.*--max-tokens"),
        ([0.0] * 10, "every token has the entropy 0.*--temperature"),
        ([1.0, float("nan"), float("inf"), 1, 1, 1], "2 tokens is NaN or infinite"),
    ],
)
def test_what_cannot_be_measured(values, message):
    with pytest.raises(EvaluationError, match=message):
        concentration(values)
