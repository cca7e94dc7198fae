# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Everything that was measured, and its form as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

from epgrpo_verl.evaluation.statistics import LEVEL, Estimate

from . import paper
from .concentration import Concentration
from .perturbation import Perturbation
from .polarity import Polarity
from .traces import TraceDiagnosis
from .zero_variance import ZeroVariance


@dataclass(frozen=True)
class ModelDiagnosis:
    """A model on data.

    Attributes:
        accuracy: Share of right responses.
        concentration: Of all tokens; None if only labels were given.
        perturbation: None if it was not asked for, or not possible.
        why_no_perturbation: Why it was not possible.
        equal_groups: Share of groups with equal rewards; None with one sample per problem.
        polarity: With GRPO's advantages; None without steps.
        grader_errors: Responses on which the grader failed; they count as wrong.
    """

    accuracy: Estimate | None
    concentration: Concentration | None
    perturbation: Perturbation | None
    why_no_perturbation: str
    equal_groups: Estimate | None
    polarity: Polarity | None
    grader_errors: int = 0


@dataclass(frozen=True)
class Diagnosis:
    """What was measured.

    Attributes:
        settings: How, by the names that are shown.
        model: A model on data, if one was given.
        trace: A trace, if one was given.
        runs: Runs by their names.
        missing: Runs that lack the metric, and why.
    """

    settings: Mapping[str, Any]
    model: ModelDiagnosis | None = None
    trace: TraceDiagnosis | None = None
    runs: Mapping[str, ZeroVariance] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)


def as_json(value: Any) -> Any:
    """Plain dicts, lists and numbers of nested results; an estimate becomes value, low and high."""
    if isinstance(value, Estimate):
        return value._asdict()
    if is_dataclass(value):
        return {one.name: as_json(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): as_json(one) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return [as_json(one) for one in value]
    return str(value) if isinstance(value, Path) else value


def diagnosis_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """The diagnosis, with the paper's figures in a part of their own."""
    figures = {
        "source": paper.SOURCE,
        "perturbation_ratio": paper.PERTURBATION_RATIO,
        "right_punished": paper.RIGHT_STEPS_PUNISHED,
        "wrong_in_winning": paper.WRONG_STEPS_IN_WINNING,
        "zero_variance_steps": paper.ZERO_VARIANCE,
    }
    return {**as_json(diagnosis), "level_of_intervals": LEVEL, "paper": figures}
