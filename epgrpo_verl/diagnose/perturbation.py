# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Perturbation: the accuracy that is lost when one token of a response is replaced.

In each response one position is drawn from the tokens of high entropy (the top fifth of all tokens of all responses)
and one from the others. At each there are two branches: in the control the token stays, in the other it is replaced by
another one, drawn from the policy with the original left out. Both go on from there with the policy, with the same
random numbers. What is lost is the accuracy of the control minus that of the branch with the replacement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

import numpy as np

from epgrpo_verl.evaluation.errors import EvaluationError
from epgrpo_verl.evaluation.statistics import Estimate

from .ratio import RESAMPLES, estimate_of_sums, positive_ratio, ratio_of_sums

Kind = Literal["high", "low"]
KINDS: tuple[Kind, Kind] = ("high", "low")


@dataclass(frozen=True)
class Trial:
    """A position in a response, and how its two branches ended.

    Attributes:
        problem: Number of the problem.
        kind: Whether the token's entropy is high or low.
        won: Whether the response itself was right.
        control: Whether the branch that kept the token was right.
        replaced: Whether the branch with another token was right.
        entropy: Entropy at the position, in nats.
        replacement_prob: Probability that the policy gave the other token.
    """

    problem: int
    kind: Kind
    won: bool
    control: bool
    replaced: bool
    entropy: float
    replacement_prob: float


@dataclass(frozen=True)
class Loss:
    """Accuracy with and without the replacement, at tokens of one kind.

    Attributes:
        trials: How many positions.
        control: Accuracy of the controls.
        replaced: Accuracy with the token replaced.
        lost: The first minus the second.
        entropy: Median entropy at the positions, in nats.
        replacement_prob: Median probability of the replacement under the policy.
    """

    trials: int
    control: Estimate
    replaced: Estimate
    lost: Estimate
    entropy: float
    replacement_prob: float


@dataclass(frozen=True)
class Losses:
    """Both kinds; None for a kind without trials.

    Attributes:
        high: At tokens of high entropy.
        low: At the others.
        ratio: The first loss over the second; None where that is not above 0.
    """

    high: Loss | None
    low: Loss | None
    ratio: Estimate | None


@dataclass(frozen=True)
class Perturbation:
    """Losses in all responses, and in those that were right before anything was replaced."""

    all: Losses
    right: Losses


def choose_positions(high: Sequence[bool] | np.ndarray, seed: int) -> dict[Kind, int | None]:
    """Draws one position of each kind.

    Args:
        high: (L,) whether the token has a high entropy.
        seed: The same seed and marks give the same positions.

    Returns:
        Position by kind; None where the response has no token of the kind.
    """
    rng = np.random.default_rng(seed)
    marks = np.asarray(high, dtype=bool)
    places = {"high": np.flatnonzero(marks), "low": np.flatnonzero(~marks)}
    return {kind: int(rng.choice(places[kind])) if len(places[kind]) else None for kind in KINDS}


def check_something_to_lose(won: Sequence[bool]) -> None:
    """Looks whether any response is right.

    Raises:
        EvaluationError: None is.
    """
    if not any(won):
        raise EvaluationError(
            f"none of the {len(won)} responses is right, so no accuracy can be lost: take easier problems, more "
            "samples (-n), a longer --max-tokens, or look whether the --grader fits the data"
        )


def perturbation(trials: Sequence[Trial], resamples: int = RESAMPLES) -> Perturbation:
    """Measures the losses; intervals are of a bootstrap over the problems that have a trial."""
    return Perturbation(
        all=_losses(trials, resamples), right=_losses([trial for trial in trials if trial.won], resamples)
    )


def _losses(trials: Sequence[Trial], resamples: int) -> Losses:
    problems = {problem: place for place, problem in enumerate(sorted({trial.problem for trial in trials}))}

    def sums(kind: Kind, value: Callable[[Trial], float]) -> list[float]:
        totals = [0.0] * len(problems)
        for trial in trials:
            if trial.kind == kind:
                totals[problems[trial.problem]] += value(trial)
        return totals

    def loss(kind: Kind) -> Loss | None:
        of_kind = [trial for trial in trials if trial.kind == kind]
        if not of_kind:
            return None
        counts = sums(kind, lambda trial: 1.0)
        values = (lambda t: t.control, lambda t: t.replaced, lambda t: t.control - t.replaced)
        return Loss(
            len(of_kind),
            *(ratio_of_sums(sums(kind, value), counts, resamples) for value in values),
            entropy=median(trial.entropy for trial in of_kind),
            replacement_prob=median(trial.replacement_prob for trial in of_kind),
        )

    columns = [sums(kind, value) for kind in KINDS for value in (lambda t: t.control - t.replaced, lambda t: 1.0)]
    ratio = estimate_of_sums(columns, _ratio_of_losses, resamples) if problems else None
    return Losses(loss("high"), loss("low"), ratio)


def _ratio_of_losses(sums: np.ndarray) -> np.ndarray:
    high, high_count, low, low_count = sums
    return positive_ratio(positive_ratio(high, high_count), positive_ratio(low, low_count))
