# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Functions of sums over problems, ratios above all, with bootstrap intervals over the problems."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from epgrpo_verl.evaluation.statistics import LEVEL, Estimate, bootstrap_means

RESAMPLES = 2000
"""Bootstrap draws."""
SEED = 0
"""Of the draws. All estimates over the same number of problems use the same draws."""


def estimate_of_sums(
    columns: Sequence[Sequence[float]], function: Callable[[np.ndarray], np.ndarray], resamples: int = RESAMPLES
) -> Estimate | None:
    """A function of sums over problems, with its interval.

    A draw of problems for which the function is not defined counts as the worst case at both ends of the interval: so
    there is no interval if more than a fortieth of the draws are like that.

    Args:
        columns: Quantities with one value per problem each.
        function: From sums of shape (quantities, draws) to values of shape (draws,), NaN where it is not defined.
            It has to be the same for sums and for means, as ratios are.
        resamples: Bootstrap draws.

    Returns:
        The value; its ends are None where there is no interval. None where it is not defined for all problems together.
    """
    values = np.array(columns, dtype=float).T
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(function(values.sum(axis=0)[:, np.newaxis])[0]) if len(values) else np.nan
        if np.isnan(value):
            return None
        if len(values) < 2:
            return Estimate(value, None, None)
        draws = function(bootstrap_means(values, resamples, SEED).T)
    tail = (1 - LEVEL) / 2
    # Without interpolation, which would make NaN of infinities.
    low = np.quantile(np.where(np.isnan(draws), -np.inf, draws), tail, method="inverted_cdf")
    high = np.quantile(np.where(np.isnan(draws), np.inf, draws), 1 - tail, method="inverted_cdf")
    if not (np.isfinite(low) and np.isfinite(high)):
        return Estimate(value, None, None)
    return Estimate(value, float(low), float(high))


def positive_ratio(tops: np.ndarray, bottoms: np.ndarray) -> np.ndarray:
    """``tops / bottoms``, NaN where the bottom is not above 0."""
    return np.where(bottoms > 0, tops / bottoms, np.nan)


def ratio_of_sums(
    numerators: Sequence[float], denominators: Sequence[float], resamples: int = RESAMPLES
) -> Estimate | None:
    """Sum of the numerators over the sum of the denominators, each with one value per problem.

    Returns:
        See `estimate_of_sums`; None where the denominators' sum is not above 0.
    """
    return estimate_of_sums([numerators, denominators], lambda sums: positive_ratio(*sums), resamples)
