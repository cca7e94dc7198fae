# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Entropy concentration: how much of the entropy the tokens with the most of it hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epgrpo_verl.evaluation.errors import EvaluationError

TOP = 0.2
"""Share of all tokens that count as those of high entropy."""
MIN_TOKENS = 5
"""So that a fifth of the tokens is at least one token."""
CURVE_POINTS = 101


@dataclass(frozen=True)
class Concentration:
    """Where the entropy is.

    Attributes:
        tokens: How many tokens there are.
        mean: Mean entropy of a token, in nats.
        threshold: Smallest entropy among the top fifth, in nats.
        top_share: Share of the entropy that the top fifth of the tokens hold; a fifth if all tokens have the same.
        fractions: Fractions of the tokens, from 0 to 1.
        shares: For each, the share of the entropy that this fraction of the tokens holds, those with the most first.
    """

    tokens: int
    mean: float
    threshold: float
    top_share: float
    fractions: tuple[float, ...]
    shares: tuple[float, ...]


def high_count(tokens: int, top: float = TOP) -> int:
    """How many tokens the top share is, at least one: rounded to the nearest whole number, halves up."""
    return max(1, math.floor(top * tokens + 0.5))


def high_tokens(entropies: Sequence[float] | np.ndarray, top: float = TOP) -> np.ndarray:
    """Marks the tokens with the highest entropies. Among equal ones the earlier counts as the higher.

    Args:
        entropies: (N,) nats.
        top: Share of the tokens to mark.

    Returns:
        (N,) bool, true for `high_count` tokens.
    """
    values = np.asarray(entropies, dtype=float)
    marks = np.zeros(len(values), dtype=bool)
    marks[np.argsort(-values, kind="stable")[: high_count(len(values), top)]] = True
    return marks


def concentration(entropies: Sequence[float] | np.ndarray) -> Concentration:
    """Measures how the entropy is spread over tokens.

    Args:
        entropies: (N,) of all tokens of all responses, in nats. Values slightly below 0 (rounding) count as 0.

    Returns:
        The share of the top fifth, and the whole curve.

    Raises:
        EvaluationError: There are too few tokens, an entropy is no number, or all are 0.
    """
    values = np.asarray(entropies, dtype=float)
    if len(values) < MIN_TOKENS:
        raise EvaluationError(
            f"{len(values)} tokens are too few: a fifth of them has to be one token or more. Take more problems "
            "(--limit), more samples (-n) or longer responses (--max-tokens)."
        )
    if not np.isfinite(values).all():
        raise EvaluationError(f"the entropy of {int((~np.isfinite(values)).sum())} tokens is NaN or infinite")
    ordered = np.sort(values.clip(min=0.0))[::-1]
    total = ordered.sum()
    if not total > 0:
        raise EvaluationError(
            "every token has the entropy 0: the policy is certain of all it says, and there is nothing to concentrate. "
            "Raise --temperature, or look at an earlier checkpoint."
        )
    held = np.concatenate([[0.0], ordered.cumsum() / total])
    fractions = np.linspace(0.0, 1.0, CURVE_POINTS)
    count = high_count(len(values))
    return Concentration(
        tokens=len(values),
        mean=float(values.mean()),
        threshold=float(ordered[count - 1]),
        top_share=float(held[count]),
        fractions=tuple(float(fraction) for fraction in fractions),
        shares=tuple(float(share) for share in np.interp(fractions * len(values), np.arange(len(held)), held)),
    )
