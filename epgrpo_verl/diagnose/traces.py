# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The measures from a token trace of a training run, for plain GRPO and for EP-GRPO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epgrpo_verl.evaluation.errors import EvaluationError
from epgrpo_verl.evaluation.statistics import Estimate
from epgrpo_verl.trace.format import TraceError
from epgrpo_verl.trace.reader import TraceStep, read_trace

from .concentration import Concentration, concentration
from .polarity import JudgedGroup, JudgedResponse, JudgedStep, Polarity, equal_groups, polarity
from .ratio import RESAMPLES
from .steps import StepSource
from .text import step_means, token_steps, without_special


@dataclass(frozen=True)
class TracePoint:
    """The measures at one training step, or over several.

    Attributes:
        step: Training step; None for all together.
        groups: Traced groups.
        concentration: Of the entropies of their tokens; None where the trace has none.
        equal_groups: Share of groups with equal rewards.
        grpo: Polarity with plain GRPO's advantages; None without steps.
        ep_grpo: Polarity with the advantages that the run was trained with; None without steps.
    """

    step: int | None
    groups: int
    concentration: Concentration | None
    equal_groups: Estimate | None
    grpo: Polarity | None
    ep_grpo: Polarity | None


@dataclass(frozen=True)
class TraceDiagnosis:
    """A whole trace: all traced steps together, and one by one."""

    whole: TracePoint
    points: tuple[TracePoint, ...]


def diagnose_trace(path: Path, steps_of: StepSource | None, resamples: int = RESAMPLES) -> TraceDiagnosis:
    """Measures a trace.

    Args:
        path: Folder of the trace, or one file of it.
        steps_of: Gives the steps of a response; None leaves polarity out.
        resamples: Bootstrap draws.

    Raises:
        EvaluationError: The trace cannot be read, or it lacks what is needed.
    """
    try:
        files = read_trace(path)
    except TraceError as error:
        raise EvaluationError(f"--trace {error}") from error
    by_step: dict[int, list[TraceStep]] = {}
    for file in files:
        if file.groups:
            by_step.setdefault(file.step, []).append(file)
    if not by_step:
        raise EvaluationError(f"--trace {path}: no step of it has a group")
    points = [_point(step, part, steps_of, resamples) for step, part in by_step.items()]
    everything = [file for part in by_step.values() for file in part]
    return TraceDiagnosis(_point(None, everything, steps_of, resamples), tuple(points))


def _point(step: int | None, files: Sequence[TraceStep], steps_of: StepSource | None, resamples: int) -> TracePoint:
    groups = [group for file in files for group in file.groups]
    entropies = [entropy for group in groups for entropy in _entropies(group)]
    grpo = ep_grpo = None
    if steps_of is not None:
        judged = [judge_group(group, _threshold(file), steps_of) for file in files for group in file.groups]
        grpo, ep_grpo = (polarity([pair[one] for pair in judged], resamples) for one in (0, 1))
    return TracePoint(
        step=step,
        groups=len(groups),
        concentration=concentration(entropies) if entropies else None,
        equal_groups=equal_groups([group["zero_variance"] for group in groups], resamples),
        grpo=grpo,
        ep_grpo=ep_grpo,
    )


def _threshold(file: TraceStep) -> float:
    threshold = file.header["config"].get("reward_threshold")
    if not isinstance(threshold, int | float):
        raise EvaluationError(f"--trace {file.path}: its header has no reward_threshold, which tells right from wrong")
    return threshold


def _entropies(group: Mapping[str, Any]) -> Iterator[float]:
    for response in group["responses"]:
        yield from (entropy for entropy in response["entropy"] or () if entropy is not None)


def judge_group(group: Mapping[str, Any], threshold: float, steps_of: StepSource) -> tuple[JudgedGroup, JudgedGroup]:
    """Judges the steps of a traced group.

    Args:
        group: A group of a trace.
        threshold: A response with a reward above it is right (theta of equation 6).
        steps_of: Gives the steps of a response.

    Returns:
        The group with plain GRPO's advantages, and with EP-GRPO's.

    Raises:
        EvaluationError: The trace has no texts, or the steps cannot be used.
    """
    plain, final = [], []
    for response in group["responses"]:
        prompt = response.get("prompt", group["prompt"])
        if response["tokens"] is None or prompt is None:
            raise EvaluationError(
                "the trace has token ids only, and steps need texts: the run found no tokenizer where its model is"
            )
        tokens = without_special(response["tokens"])
        steps = steps_of(prompt, "".join(tokens))
        owner = token_steps(tokens, steps)
        uniform = [response["grpo_advantage"] if valid else None for valid in response["mask"]]
        won = response["reward"] > threshold
        for judged, advantages in ((plain, uniform), (final, response["advantage"])):
            means = step_means(advantages, owner, len(steps))
            pairs = zip(steps, means, strict=True)
            judged.append(JudgedResponse(won, tuple(JudgedStep(step.right, mean) for step, mean in pairs)))
    equal = group["zero_variance"]
    return JudgedGroup(tuple(plain), equal), JudgedGroup(tuple(final), equal)
