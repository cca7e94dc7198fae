# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The formulas: pass@k against enumeration, the bootstrap against what it has to be."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epgrpo_verl.evaluation.statistics import (
    avg_at_n,
    bootstrap_means,
    estimates,
    pass_at_k,
    pass_curve,
    percentile_interval,
)


@st.composite
def counts(draw, largest=9):
    n = draw(st.integers(1, largest))
    return n, draw(st.integers(0, n)), draw(st.integers(1, n))


@given(counts())
def test_pass_at_k_is_the_share_of_subsets_with_a_right_sample(case):
    n, c, k = case
    samples = [True] * c + [False] * (n - c)
    hits = [any(subset) for subset in combinations(samples, k)]
    assert pass_at_k(n, c, k) == pytest.approx(sum(hits) / len(hits), abs=1e-12)


@given(counts(largest=3000))
@settings(max_examples=60)
def test_pass_at_k_is_exact_for_many_samples(case):
    n, c, k = case
    exact = 1 - Fraction(comb(n - c, k), comb(n, k))
    assert pass_at_k(n, c, k) == pytest.approx(float(exact), rel=1e-9, abs=1e-12)


@given(counts(largest=200))
def test_the_curve_rises_from_the_accuracy_to_whether_any_is_right(case):
    n, c, _ = case
    curve = pass_curve(n, c)
    assert curve.shape == (n,)
    assert curve[0] == pytest.approx(avg_at_n(n, c), abs=1e-12)
    assert curve[-1] == float(c > 0)
    assert (np.diff(curve) >= 0).all() and curve.min() >= 0 and curve.max() <= 1


@pytest.mark.parametrize(("n", "c", "k", "value"), [(4, 1, 4, 1.0), (16, 3, 8, 0.9), (8, 0, 8, 0.0), (4, 1, 1, 0.25)])
def test_worked_values(n, c, k, value):
    # verl's best@4 of the first is 0.68 (verl-project/verl#7240)
    assert pass_at_k(n, c, k) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize(("n", "c", "k"), [(4, 1, 8), (4, 1, 0), (4, 5, 1), (4, -1, 1), (0, 0, 1)])
def test_what_cannot_be_estimated_is_no_small_number(n, c, k):
    with pytest.raises(ValueError):
        pass_at_k(n, c, k)


def test_the_average_is_unbiased_by_simulation():
    rng = np.random.default_rng(0)
    rate, n, k = 0.3, 6, 4
    found = [pass_at_k(n, int(c), k) for c in rng.binomial(n, rate, size=20_000)]
    assert np.mean(found) == pytest.approx(1 - (1 - rate) ** k, abs=0.01)


def resampled_by_hand(values, resamples, seed):
    draws = np.random.default_rng(seed).integers(len(values), size=(resamples, len(values)))
    return values[draws].mean(axis=1)


def test_the_bootstrap_has_the_distribution_of_drawing_problems_by_hand():
    values = np.random.default_rng(1).random((40, 2))
    ours, by_hand = bootstrap_means(values, 20_000, 0), resampled_by_hand(values, 20_000, 5)
    assert ours.shape == (20_000, 2)
    assert ours.mean(axis=0) == pytest.approx(values.mean(axis=0), abs=2e-3)
    assert ours.std(axis=0) == pytest.approx(values.std(axis=0) / np.sqrt(40), rel=0.03)
    for mine, other in zip(percentile_interval(ours), percentile_interval(by_hand), strict=True):
        assert mine == pytest.approx(other, abs=3e-3)


def test_about_95_of_100_intervals_hold_the_truth():
    rng = np.random.default_rng(2)
    hits = 0
    for trial in range(400):
        values = rng.beta(1, 2, size=(60, 1))
        (estimate,) = estimates([values], 500, trial)
        hits += estimate.low <= 1 / 3 <= estimate.high
    assert 0.91 <= hits / 400 <= 0.985


@given(st.lists(st.floats(0, 1), min_size=2, max_size=30), st.integers(0, 5))
@settings(max_examples=50)
def test_an_interval_lies_within_the_values_and_is_repeated_by_its_seed(values, seed):
    part = np.array(values)[:, None]
    (estimate,) = estimates([part], 200, seed)
    assert estimate.value == pytest.approx(part.mean())
    assert part.min() - 1e-12 <= estimate.low <= estimate.high <= part.max() + 1e-12
    assert estimates([part], 200, seed) == [estimate]


def test_equal_values_have_no_spread_and_one_problem_has_no_interval():
    assert estimates([np.full((5, 1), 0.4)], 200, 0)[0] == pytest.approx((0.4, 0.4, 0.4))
    assert estimates([np.array([[0.4]])], 200, 0) == [(0.4, None, None)]
    assert estimates([np.array([[0.4]]), np.full((5, 1), 0.8)], 200, 0)[0][1:] == (None, None)


def test_the_average_over_sets_counts_each_set_once():
    small, large = np.array([[1.0], [0.0]]), np.full((50, 1), 0.25)
    (estimate,) = estimates([small, large], 4000, 0)
    assert estimate.value == pytest.approx((0.5 + 0.25) / 2)
    # only the small set varies, with half the weight: its mean is 0, 0.5 or 1
    assert (estimate.low, estimate.high) == pytest.approx((0.125, 0.625))
