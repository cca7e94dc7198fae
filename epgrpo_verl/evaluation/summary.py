# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""From outcomes to numbers, one summary per set and one for the average over the sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .outcome import Answers, Outcome
from .runs import Run
from .statistics import LEVEL, Estimate, avg_at_n, estimates, pass_curve

RESAMPLES = 2000
SEED = 0
"""Of the bootstrap: the same samples give the same intervals."""


@dataclass(frozen=True)
class Lengths:
    """Response lengths in tokens.

    Attributes:
        mean: Their mean; over several sets the mean of the sets' means, as for every other number.
        median: Their median.
        p95: Their 95th percentile.
        longest: The longest.
    """

    mean: float
    median: float
    p95: float
    longest: int


@dataclass(frozen=True)
class SetSummary:
    """The numbers of one set.

    Attributes:
        problems: Number of problems.
        n: Samples per problem; over several sets the fewest.
        samples: Number of samples.
        avg: avg@n, the mean over problems of the share of right samples.
        passes: pass@k for k from 1 to n.
        truncated: Share of samples that were cut off at the token limit; None where not known.
        no_box: Share of samples without an answer in a box; None where the grader looks for none.
        grader_errors: Samples that could not be graded. They count as not right in ``avg`` and ``passes``.
        tokens: Response lengths; None where not known.
    """

    problems: int
    n: int
    samples: int
    avg: Estimate
    passes: list[Estimate]
    truncated: float | None
    no_box: float | None
    grader_errors: int
    tokens: Lengths | None

    def at(self, k: int) -> Estimate | None:
        """pass@k, or None where there are fewer than k samples per problem."""
        return self.passes[k - 1] if 1 <= k <= self.n else None


@dataclass(frozen=True)
class Summary:
    """The numbers of a run.

    Attributes:
        run: What they are of.
        sets: Set to its numbers.
        average: avg@n and pass@k as means over the sets, each set counting the same; None for a single set.
    """

    run: Run
    sets: dict[str, SetSummary]
    average: SetSummary | None

    @property
    def rows(self) -> dict[str, SetSummary]:
        """The sets, and the average under the name ``average``."""
        return self.sets if self.average is None else {**self.sets, "average": self.average}


def curves(problems: Sequence[Answers]) -> np.ndarray:
    """avg@n and pass@1 to pass@n of each problem; shape (problems, 1 + n), n the fewest samples that a problem has."""
    n = min(len(answers.outcomes) for answers in problems)
    rows = []
    for answers in problems:
        size, right = len(answers.outcomes), sum(outcome.right for outcome in answers.outcomes)
        rows.append([avg_at_n(size, right), *pass_curve(size, right)[:n]])
    return np.array(rows)


def summarize(run: Run, resamples: int = RESAMPLES) -> Summary:
    """Compute the numbers of a run.

    Args:
        run: The run; each of its sets has at least one problem.
        resamples: Bootstrap draws for the intervals.
    """
    values = {name: curves(problems) for name, problems in run.sets.items()}
    sets = {name: _of_parts([values[name]], [problems], resamples) for name, problems in run.sets.items()}
    if len(sets) < 2:
        return Summary(run, sets, None)
    width = min(part.shape[1] for part in values.values())
    average = _of_parts([part[:, :width] for part in values.values()], list(run.sets.values()), resamples)
    return Summary(run, sets, average)


def _of_parts(values: Sequence[np.ndarray], parts: Sequence[Sequence[Answers]], resamples: int) -> SetSummary:
    average, *passes = estimates(values, resamples, SEED)
    outcomes = [[outcome for answers in part for outcome in answers.outcomes] for part in parts]
    return SetSummary(
        problems=sum(map(len, parts)),
        n=len(passes),
        samples=sum(map(len, outcomes)),
        avg=average,
        passes=passes,
        truncated=_share(outcomes, "truncated"),
        no_box=None if (boxed := _share(outcomes, "boxed")) is None else 1 - boxed,
        grader_errors=sum(outcome.grader_error for part in outcomes for outcome in part),
        tokens=_lengths([[outcome.tokens for outcome in part] for part in outcomes]),
    )


def _share(parts: Sequence[Sequence[Outcome]], name: str) -> float | None:
    values = [[getattr(outcome, name) for outcome in part] for part in parts]
    if any(value is None for part in values for value in part):
        return None
    return float(np.mean([np.mean(part) for part in values]))


def _lengths(parts: Sequence[Sequence[int | None]]) -> Lengths | None:
    tokens = [length for part in parts for length in part]
    if any(length is None for length in tokens):
        return None
    median, p95 = np.quantile(tokens, [0.5, 0.95])
    return Lengths(float(np.mean([np.mean(part) for part in parts])), float(median), float(p95), int(max(tokens)))


def as_json(summary: Summary, resamples: int = RESAMPLES) -> dict[str, Any]:
    """The summary for programs. Shares are from 0 to 1; null stands for what is not known."""
    return {
        "run": summary.run.name,
        "settings": dict(summary.run.header),
        "intervals": {"method": "percentile bootstrap over problems", "level": LEVEL, "resamples": resamples},
        "sets": {name: _set_json(numbers) for name, numbers in summary.sets.items()},
        "average": None if summary.average is None else _set_json(summary.average),
        "notes": list(summary.run.notes),
    }


def _set_json(numbers: SetSummary) -> dict[str, Any]:
    return {
        "problems": numbers.problems,
        "n": numbers.n,
        "samples": numbers.samples,
        "avg@n": numbers.avg._asdict(),
        "pass@k": {str(k): estimate._asdict() for k, estimate in enumerate(numbers.passes, 1)},
        "truncated": numbers.truncated,
        "no_box": numbers.no_box,
        "grader_errors": numbers.grader_errors,
        "tokens": None if numbers.tokens is None else asdict(numbers.tokens),
    }
