# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Zero-variance collapse over a training, from verl's logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from epgrpo_verl.evaluation.errors import EvaluationError
from epgrpo_verl.view.metrics import ZERO_VARIANCE, load_metrics

PARTS = 5
"""The first and the last fifth of a training are compared."""
_ALL = 1 - 1e-6


@dataclass(frozen=True)
class Phase:
    """Zero variance in a stretch of a training.

    Attributes:
        first: Its first logged step.
        last: Its last logged step.
        steps: Logged steps in it.
        groups: Share of groups with equal rewards, averaged over the steps.
        collapsed_steps: Share of steps in which every group had equal rewards.
    """

    first: int
    last: int
    steps: int
    groups: float
    collapsed_steps: float


@dataclass(frozen=True)
class ZeroVariance:
    """Zero variance over a training.

    Attributes:
        whole: All logged steps.
        start: The first fifth of them.
        end: The last fifth.
        series_steps: The steps.
        series_groups: Share of groups with equal rewards at each.
    """

    whole: Phase
    start: Phase
    end: Phase
    series_steps: tuple[int, ...]
    series_groups: tuple[float, ...]


def zero_variance(steps: Sequence[int], shares: Sequence[float]) -> ZeroVariance:
    """Summarises a series.

    Args:
        steps: Training steps in rising order, at least one.
        shares: Share of groups with equal rewards at each, from 0 to 1.

    Raises:
        EvaluationError: A share is not from 0 to 1.
    """
    wrong = [share for share in shares if not 0 <= share <= 1]
    if wrong:
        raise EvaluationError(f"{ZERO_VARIANCE} has to be from 0 to 1, and is {wrong[0]} somewhere")
    fifth = max(1, len(steps) // PARTS)
    return ZeroVariance(
        whole=_phase(steps, shares),
        start=_phase(steps[:fifth], shares[:fifth]),
        end=_phase(steps[-fifth:], shares[-fifth:]),
        series_steps=tuple(steps),
        series_groups=tuple(shares),
    )


def _phase(steps: Sequence[int], shares: Sequence[float]) -> Phase:
    count = len(steps)
    return Phase(steps[0], steps[-1], count, sum(shares) / count, sum(share >= _ALL for share in shares) / count)


def run_zero_variance(path: Path) -> ZeroVariance:
    """Reads a run of verl.

    Args:
        path: What `epgrpo_verl.view.metrics.load_metrics` takes.

    Raises:
        EvaluationError: There are no logs, or the run did not log the metric.
    """
    try:
        metrics = load_metrics(path)
    except (OSError, ValueError) as error:
        raise EvaluationError(f"--run {path}: {error}") from error
    steps, shares = metrics.series(ZERO_VARIANCE)
    if not steps:
        raise EvaluationError(
            f"--run {path}: none of its {len(metrics.steps)} steps has the metric {ZERO_VARIANCE}. verl's own "
            "adv_estimator=grpo does not log it. The same training logs it with algorithm.adv_estimator=ep_grpo "
            "+algorithm.ep_grpo.gate=false +algorithm.ep_grpo.progress=false, which is GRPO by another name."
        )
    return zero_variance(steps, shares)
