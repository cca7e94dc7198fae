# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The formulas. Counts are of one problem: ``n`` samples, of which ``c`` are right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

LEVEL = 0.95
"""Share of the bootstrap distribution that an interval covers."""


class Estimate(NamedTuple):
    """A mean over problems with its interval.

    Attributes:
        value: The mean, a share from 0 to 1 (a difference of shares from -1 to 1).
        low: Lower end of the interval; None where one problem alone gives no spread.
        high: Upper end.
    """

    value: float
    low: float | None
    high: float | None


def avg_at_n(n: int, c: int) -> float:
    """Share of right samples, ``c / n``: an unbiased estimate of pass@1."""
    _check_counts(n, c)
    return c / n


def pass_curve(n: int, c: int) -> np.ndarray:
    """Unbiased pass@k of one problem for all k from 1 to n.

    ``pass@k = 1 - C(n - c, k) / C(n, k)``: the chance that k samples drawn without replacement hold a right one
    (Chen et al. 2021, arXiv 2107.03374, equation 1). The quotient is a product of factors in [0, 1], so that nothing
    overflows: ``C(n - c, k) / C(n, k) = prod_{j < k} (n - c - j) / (n - j)``.

    Returns:
        float64 of shape (n,); entry ``k - 1`` is pass@k.
    """
    _check_counts(n, c)
    drawn = np.arange(n)
    return 1.0 - np.cumprod(np.maximum(n - c - drawn, 0) / (n - drawn))


def pass_at_k(n: int, c: int, k: int) -> float:
    """Unbiased pass@k of one problem; see `pass_curve`.

    Raises:
        ValueError: k is not from 1 to n: with fewer samples than k there is no unbiased estimate.
    """
    if not 1 <= k <= n:
        raise ValueError(f"pass@{k} is not available from n={n} samples: k must be from 1 to n")
    return float(pass_curve(n, c)[k - 1])


def bootstrap_means(values: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Means of problems drawn with replacement, as many as there are.

    Args:
        values: Shape (problems, m): m quantities of each problem. All of them are taken from the same draws.
        resamples: Number of draws.
        seed: Of the draws; the same seed and number of problems give the same draws.

    Returns:
        float64 of shape (resamples, m).
    """
    problems = len(values)
    counts = np.random.default_rng(seed).multinomial(problems, np.full(problems, 1 / problems), size=resamples)
    return counts @ np.asarray(values, dtype=np.float64) / problems


def percentile_interval(draws: np.ndarray, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray]:
    """The central ``level`` of a bootstrap distribution along its first axis: lower and upper ends of shape (m,)."""
    tail = (1 - level) / 2
    low, high = np.quantile(draws, [tail, 1 - tail], axis=0)
    return low, high


def estimates(values: Sequence[np.ndarray], resamples: int, seed: int) -> list[Estimate]:
    """Mean over sets of the mean over problems, with bootstrap intervals over problems.

    Each set counts the same, whatever its size. Its problems are drawn on their own, as the sets are fixed and the
    problems are the sample.

    Args:
        values: One array of shape (problems of the set, m) per set.
        resamples: Bootstrap draws.
        seed: Of the draws.

    Returns:
        m estimates.
    """
    means = np.mean([part.mean(axis=0) for part in values], axis=0)
    if min(len(part) for part in values) < 2:
        return [Estimate(float(mean), None, None) for mean in means]
    draws = np.mean([bootstrap_means(part, resamples, seed + index) for index, part in enumerate(values)], axis=0)
    low, high = percentile_interval(draws)
    return [Estimate(float(m), float(a), float(b)) for m, a, b in zip(means, low, high, strict=True)]


def _check_counts(n: int, c: int) -> None:
    if n < 1:
        raise ValueError(f"n={n}: a problem needs at least one sample")
    if not 0 <= c <= n:
        raise ValueError(f"c={c} right samples of n={n} are impossible")
