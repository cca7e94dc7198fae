# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Calling the grader: this project's own, or another function with verl's signature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from epgrpo_verl.grading import GraderUnavailable, compute_score, parse_ground_truth
from epgrpo_verl.grading.score import DEADLINE_S

from .errors import EvaluationError
from .problems import Problem

OWN = "epgrpo_verl.grading:compute_score"


@dataclass(frozen=True)
class Verdict:
    """What the grader says; see `epgrpo_verl.evaluation.store.Sample` for the attributes."""

    score: float
    pred: str
    reason: str
    grader_error: bool


@dataclass(frozen=True)
class Grader:
    """A grading function.

    Attributes:
        name: ``MODULE:FUNCTION``.
        function: Called as verl calls a reward function.
        own: Whether it is this project's, so that a response without a box has no answer.
    """

    name: str
    function: Callable[..., Any]
    own: bool

    def grade(self, problem: Problem, response: str) -> Verdict:
        """Grade a response; may be called from several threads.

        Raises:
            EvaluationError: The grader cannot run at all, or its score is neither 0 nor 1.
        """
        try:
            result = self.function(problem.set, response, problem.ground_truth)
        except GraderUnavailable as error:
            raise EvaluationError(f"nothing can be graded: {error}") from error
        except Exception as error:
            if self.own:
                raise EvaluationError(f"{problem.set}, problem {problem.id}: {error}") from error
            return Verdict(0.0, "", f"error:{type(error).__name__}", True)
        return read_verdict(result, f"--grader {self.name}")


def read_verdict(result: Any, where: str) -> Verdict:
    """Read what a reward function returned: a number, or a dict with ``acc`` or ``score``.

    Raises:
        EvaluationError: It says neither right (1) nor wrong (0).
    """
    row = result if isinstance(result, dict) else {"score": result}
    name = "score" if row.get("acc") is None else "acc"
    score = row.get(name)
    if score not in (0, 1):  # True and False are 1 and 0
        raise EvaluationError(f"{where} gave the {name} {score!r}; it has to be 1 for right and 0 for wrong")
    failed = bool(row.get("grader_error", False))
    return Verdict(float(score), str(row.get("pred") or ""), str(row.get("reason") or ""), failed)


def load_grader(
    name: str = OWN, rel_tol: float | None = None, workers: int = 2, deadline_s: float = DEADLINE_S
) -> Grader:
    """Find a grader.

    Args:
        name: ``MODULE:FUNCTION``.
        rel_tol: Relative tolerance for numbers. This and the following are of this project's grader only.
        workers: Its worker processes.
        deadline_s: Seconds of work that a comparison may take.

    Raises:
        EvaluationError: There is no such function.
    """
    if name == OWN:
        return Grader(name, partial(compute_score, rel_tol=rel_tol, workers=workers, deadline_s=deadline_s), own=True)
    if rel_tol is not None:
        raise EvaluationError(f"--rel-tol is a setting of {OWN}, not of --grader {name}")
    module, colon, function = name.partition(":")
    try:
        found = getattr(import_module(module), function) if colon else None
    except (ImportError, AttributeError, ValueError) as error:
        raise EvaluationError(f"--grader {name}: {error}") from error
    if not callable(found):
        raise EvaluationError(f"--grader {name}: give MODULE:FUNCTION, for instance {OWN}")
    return Grader(name, found, own=False)


def check_golds(problems: list[Problem]) -> None:
    """Find a missing answer before anything is generated.

    Raises:
        EvaluationError: A problem has no answer to grade against.
    """
    for problem in problems:
        try:
            parse_ground_truth(problem.ground_truth, problem.set)
        except ValueError as error:
            raise EvaluationError(f"problem {problem.id}: {error}") from error
