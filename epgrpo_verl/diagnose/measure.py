# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Measures a model on data, or labelled samples alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epgrpo_verl.evaluation.errors import EvaluationError

from .branches import run_branches
from .collect import SAMPLES, Bar, Plan, collect, encode_problems, open_policy, write_samples
from .concentration import concentration
from .diagnosis import ModelDiagnosis
from .perturbation import perturbation
from .polarity import JudgedGroup, JudgedResponse, JudgedStep, Polarity, equal_groups, grpo_groups, polarity
from .ratio import RESAMPLES, ratio_of_sums
from .steps import Step, StepSource


@dataclass(frozen=True)
class Scored:
    """A response, as far as polarity needs it.

    Attributes:
        group: Names its prompt.
        score: 1 for right, 0 for wrong.
        steps: Its steps.
    """

    group: Any
    score: float
    steps: Sequence[Step]


def diagnose_model(
    plan: Plan, out: Path, steps_of: StepSource | None, perturb: bool, bar: Bar, resamples: int = RESAMPLES
) -> ModelDiagnosis:
    """Samples, and measures what the samples show. Writes them to ``out`` before anything else can fail.

    Args:
        plan: What to sample.
        out: Folder for the samples; it exists.
        steps_of: Gives the steps of a response; None leaves polarity out.
        perturb: Whether to measure perturbation.
        bar: Shows the progress.
        resamples: Bootstrap draws.

    Raises:
        EvaluationError: Anything is not as it must be.
    """
    prompts = encode_problems(plan)
    policy = open_policy(plan)
    samples = collect(plan, policy, prompts, bar)
    write_samples(out / SAMPLES, samples, None)
    found = concentration([entropy for sample in samples for entropy in sample.look.entropies])
    of_steps = None
    if steps_of is not None:
        steps = [steps_of(sample.prompt, sample.response) for sample in samples]
        write_samples(out / SAMPLES, samples, steps)
        scored = [Scored(s.problem, float(s.won), mine) for s, mine in zip(samples, steps, strict=True)]
        of_steps = grpo_polarity(scored, resamples)
    lost, why_not = None, ""
    if perturb:
        try:
            lost = perturbation(run_branches(plan, policy, samples, bar), resamples)
        except EvaluationError as error:
            why_not = str(error)
    by_problem = [[float(s.won) for s in samples if s.problem == number] for number in range(len(plan.problems))]
    return ModelDiagnosis(
        accuracy=ratio_of_sums([sum(won) for won in by_problem], [len(won) for won in by_problem], resamples),
        concentration=found,
        perturbation=lost,
        why_no_perturbation=why_not,
        equal_groups=equal_groups(grpo_groups(by_problem)[1], resamples) if plan.n > 1 else None,
        polarity=of_steps,
        grader_errors=sum(sample.grader_error for sample in samples),
    )


def diagnose_labels(records: Sequence[Mapping[str, Any]], resamples: int = RESAMPLES) -> ModelDiagnosis:
    """Measures polarity from a file of labels alone.

    Args:
        records: What `epgrpo_verl.diagnose.steps.read_label_lines` gave.
        resamples: Bootstrap draws.

    Raises:
        EvaluationError: A line has no score.
    """
    scored = []
    for record in records:
        if record.get("score") not in (0, 1):
            raise EvaluationError(
                f"{record['where']}: without --model each line needs a score, 1 for a right response and 0 for a wrong "
                "one, as samples.jsonl has it"
            )
        group = (record["set"], record["id"]) if "set" in record and "id" in record else record["prompt"]
        scored.append(Scored(group, float(record["score"]), record["steps"]))
    groups = _by_group(scored)
    wins, counts = [sum(s.score for s in group) for group in groups], [len(group) for group in groups]
    found = grpo_polarity(scored, resamples)
    return ModelDiagnosis(
        accuracy=ratio_of_sums(wins, counts, resamples),
        concentration=None,
        perturbation=None,
        why_no_perturbation="",
        equal_groups=found.equal_groups,
        polarity=found,
    )


def grpo_polarity(scored: Sequence[Scored], resamples: int = RESAMPLES) -> Polarity:
    """Polarity with the advantages that GRPO would give, one for all steps of a response.

    Raises:
        EvaluationError: A group has one response, so that it has no advantage.
    """
    groups = _by_group(scored)
    alone = sum(len(group) < 2 for group in groups)
    if alone:
        raise EvaluationError(
            f"polarity needs two responses or more to each prompt, and {alone} of {len(groups)} prompts have one: "
            "GRPO's advantage compares them. Give -n 2 or more; -n 8 is usual."
        )
    advantages, equal = grpo_groups([[one.score for one in group] for group in groups])
    judged = []
    for group, mine, same in zip(groups, advantages, equal, strict=True):
        responses = [
            JudgedResponse(one.score == 1.0, tuple(JudgedStep(step.right, advantage) for step in one.steps))
            for one, advantage in zip(group, mine, strict=True)
        ]
        judged.append(JudgedGroup(tuple(responses), same))
    return polarity(judged, resamples)


def _by_group(scored: Sequence[Scored]) -> list[list[Scored]]:
    groups: dict[Any, list[Scored]] = {}
    for one in scored:
        groups.setdefault(one.group, []).append(one)
    return list(groups.values())
