# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Differences between runs on the same problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epgrpo_verl.data import BENCHMARKS

from .outcome import Answers
from .runs import Run
from .statistics import Estimate, estimates
from .summary import RESAMPLES, SEED, curves


@dataclass(frozen=True)
class Difference:
    """A run minus the baseline, problem by problem.

    Attributes:
        avg: Difference of avg@n; n may differ, as either estimates pass@1.
        passes: Differences of pass@k for the k that both have.
        why_not: Why there is none; empty where there is one.
    """

    avg: Estimate | None = None
    passes: tuple[Estimate, ...] = ()
    why_not: str = ""

    def at(self, k: int) -> Estimate | None:
        """Difference of pass@k, or None where there is none."""
        return self.passes[k - 1] if 1 <= k <= len(self.passes) else None


def differences(run: Run, baseline: Run, resamples: int = RESAMPLES) -> dict[str, Difference]:
    """Differences by set, and under ``average`` that of the mean over the sets.

    The problems are drawn once for both runs (paired bootstrap): what makes a problem hard for both cancels.
    """
    result: dict[str, Difference] = {}
    parts = []
    for name, problems in run.sets.items():
        if name not in baseline.sets:
            result[name] = Difference(why_not="not in the baseline")
            continue
        pairs = pair(problems, baseline.sets[name])
        if isinstance(pairs, str):
            result[name] = Difference(why_not=pairs)
            continue
        left, right = (curves(side) for side in zip(*pairs, strict=True))
        width = min(left.shape[1], right.shape[1])
        parts.append(left[:, :width] - right[:, :width])
        result[name] = _difference([parts[-1]], resamples)
    if len(run.sets) > 1 or len(baseline.sets) > 1:
        if len(parts) == len(run.sets) == len(baseline.sets):
            width = min(part.shape[1] for part in parts)
            result["average"] = _difference([part[:, :width] for part in parts], resamples)
        else:
            result["average"] = Difference(why_not="not the same sets and problems")
    return result


def _difference(parts: Sequence[np.ndarray], resamples: int) -> Difference:
    average, *passes = estimates(parts, resamples, SEED)
    return Difference(average, tuple(passes))


def pair(left: Sequence[Answers], right: Sequence[Answers]) -> list[tuple[Answers, Answers]] | str:
    """Match the problems of two runs.

    By name where both runs know the names, which also matches runs with different chat templates; else by rendered
    prompt and answer, as verl's validation dumps have no names.

    Returns:
        The pairs, or why there are none.
    """
    named = all(answers.id is not None for answers in [*left, *right])
    ours, theirs = ({(answers.id if named else answers.digest): answers for answers in side} for side in (left, right))
    if len(ours) < len(left) or len(theirs) < len(right):
        return "a problem is there twice"
    if ours.keys() != theirs.keys():
        common = len(ours.keys() & theirs.keys())
        return f"not the same problems ({common} in common of {len(ours)} and {len(theirs)})"
    return [(answers, theirs[key]) for key, answers in ours.items()]


def has_all_benchmarks(run: Run) -> bool:
    """Whether the run's sets are the five that the paper's average is over."""
    return set(run.sets) == set(BENCHMARKS)
