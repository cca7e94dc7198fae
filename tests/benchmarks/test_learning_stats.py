# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The statistics of the learning runs against brute force and by hand."""

from __future__ import annotations

import math
import random
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.learning import stats

differences = st.lists(st.integers(-8, 8).map(lambda eighths: eighths / 8), min_size=1, max_size=8)
rewards = st.lists(st.integers(0, 64).map(lambda right: right / 64), min_size=1, max_size=40)


@given(rewards)
def test_area_is_the_sum_of_the_trapezoids(values):
    strips = [(left + right) / 2 for left, right in zip(values, values[1:], strict=False)]
    expected = sum(strips) / len(strips) if strips else values[0]
    assert stats.area_under_curve(values) == pytest.approx(expected, abs=1e-12)


def test_area_of_a_straight_line():
    assert stats.area_under_curve([0.0, 0.5, 1.0]) == pytest.approx(0.5)
    assert stats.area_under_curve([0.25] * 7) == pytest.approx(0.25)


def test_final_reward_is_the_mean_of_the_last_steps():
    assert stats.final_reward([9.0, 1.0, 2.0, 3.0, 4.0, 5.0], last=5) == 3.0


def test_final_reward_of_a_run_that_is_too_short_is_refused():
    with pytest.raises(ValueError, match="2 steps"):
        stats.final_reward([1.0, 1.0], last=5)


@given(rewards, st.integers(1, 6), st.sampled_from([0.25, 0.5, 0.75]))
def test_steps_to_reach_is_the_first_window_that_is_high_enough(values, window, level):
    expected = None
    for step in range(len(values), 0, -1):
        part = values[max(0, step - window) : step]
        if len(part) == window and math.fsum(part) / window >= level:
            expected = step
    assert stats.steps_to_reach(values, level, window) == expected


def test_a_run_that_never_reaches_the_level_counts_as_the_longest():
    assert stats.median_steps([10, None, 12]) == 12
    assert stats.median_steps([10, None, None]) is None
    assert stats.median_steps([10, 12]) == 11
    assert stats.median_steps([10, None]) is None


@given(differences)
def test_the_sign_flip_test_tries_every_sign(values):
    """In eighths all sums are exact, so that ties are ties."""
    sums = [
        abs(sum(s * v for s, v in zip(signs, values, strict=True))) for signs in product((1, -1), repeat=len(values))
    ]
    expected = sum(total >= abs(sum(values)) for total in sums) / len(sums)
    assert stats.sign_flip_p(values) == expected


def test_the_sign_flip_test_by_hand():
    assert stats.sign_flip_p([0.1, 0.2, 0.3]) == pytest.approx(2 / 8)  # only +++ and --- are as far from 0
    assert stats.sign_flip_p([0.1, 0.2, -0.3]) == 1.0
    assert stats.sign_flip_p([0.0]) == 1.0


@pytest.mark.parametrize("count", range(1, 10))
def test_the_smallest_p_is_that_of_differences_of_one_sign(count):
    assert stats.sign_flip_p([0.1 * (i + 1) for i in range(count)]) == pytest.approx(stats.smallest_p(count))


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=7), st.randoms(use_true_random=False))
def test_the_sign_flip_test_ignores_order_and_direction(values, rng: random.Random):
    shuffled = values[:]
    rng.shuffle(shuffled)
    assert stats.sign_flip_p(shuffled) == stats.sign_flip_p(values) == stats.sign_flip_p([-value for value in values])


def test_the_sign_flip_test_is_exact_under_the_null():
    """With differences that are symmetric about 0, p <= a happens with probability a at most."""
    generator = np.random.default_rng(0)
    p_values = np.array([stats.sign_flip_p(row) for row in generator.normal(size=(2000, 6))])
    for level in (2 / 64, 8 / 64, 32 / 64):
        assert np.mean(p_values <= level) == pytest.approx(level, abs=3 * math.sqrt(level * (1 - level) / 2000))


@pytest.mark.parametrize("count", [0, stats.MAX_EXACT + 1])
def test_the_sign_flip_test_refuses_what_it_cannot_do_exactly(count):
    with pytest.raises(ValueError, match="exact test"):
        stats.sign_flip_p([1.0] * count)


@pytest.mark.parametrize("values", [[0.2, 0.5, 0.9, 0.3, 0.4], [0.1, 0.1, 0.4, 0.6, 0.9]])
def test_the_bootstrap_approaches_all_draws_with_replacement(values):
    means = [np.mean(draw) for draw in product(values, repeat=len(values))]
    low, high = np.quantile(means, [0.025, 0.975], method="inverted_cdf")
    assert stats.bootstrap_interval(values, resamples=200_000) == pytest.approx((low, high), abs=0.01)


def test_the_bootstrap_gives_the_same_interval_every_time():
    assert stats.bootstrap_interval([0.1, 0.4, 0.8, 0.2, 0.3]) == stats.bootstrap_interval([0.1, 0.4, 0.8, 0.2, 0.3])


def test_equal_values_have_an_interval_of_no_width():
    assert stats.bootstrap_interval([0.5] * 5) == (0.5, 0.5)


def test_one_seed_has_no_interval():
    with pytest.raises(ValueError, match="at least 5 seeds"):
        stats.bootstrap_interval([0.5] * 4)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=7))
def test_holm_rejects_what_the_step_down_procedure_rejects(p_values):
    adjusted = stats.holm(p_values)
    for level in (0.01, 0.05, 0.2, 0.5):
        rejected = set()
        for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
            if (len(p_values) - rank) * p_values[index] > level:
                break
            rejected.add(index)
        assert {index for index, p in enumerate(adjusted) if p <= level} == rejected


def test_holm_by_hand():
    assert stats.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert stats.holm([]) == []
