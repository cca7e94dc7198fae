# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Steps of responses, from a checker or from a file of labels."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from epgrpo_verl.evaluation.errors import EvaluationError


@dataclass(frozen=True)
class Step:
    """One step of a response.

    Attributes:
        start: Index of its first character in the response's text.
        end: Index after its last character.
        right: Whether it is right.
    """

    start: int
    end: int
    right: bool


StepSource = Callable[[str, str], tuple[Step, ...]]
"""Gives the steps of a response, in their order, from the prompt's text and the response's."""


def read_steps(found: Any, response: str, where: str) -> tuple[Step, ...]:
    """Checks steps that somebody else made.

    Args:
        found: A sequence of objects or dicts with ``start``, ``end`` and ``right``, in any order.
        response: The response's text.
        where: Names their source in messages.

    Returns:
        The steps in the order of the text.

    Raises:
        EvaluationError: They are not of that form, go beyond the text, or overlap.
    """
    if not isinstance(found, Sequence) or isinstance(found, str):
        raise EvaluationError(f"{where} gave {found!r:.80}; it has to be a list of steps with start, end and right")
    steps = sorted((_read_step(one, response, where) for one in found), key=lambda step: step.start)
    for before, after in zip(steps, steps[1:], strict=False):
        if after.start < before.end:
            raise EvaluationError(
                f"{where}: the steps {before.start}-{before.end} and {after.start}-{after.end} overlap in "
                f"{response!r}; each character can belong to one step only"
            )
    return tuple(steps)


def _read_step(one: Any, response: str, where: str) -> Step:
    names = ("start", "end", "right")
    values = [one.get(name) if isinstance(one, dict) else getattr(one, name, None) for name in names]
    start, end, right = values
    if not all(isinstance(value, int) for value in values) or right not in (0, 1):
        raise EvaluationError(
            f"{where}: a step has start={start!r}, end={end!r}, right={right!r}; the first two have to be whole "
            "numbers and the last true or false"
        )
    if not 0 <= start < end <= len(response):
        raise EvaluationError(
            f"{where}: a step from character {start} to {end} is not within the {len(response)} characters of "
            f"{response!r}; start counts from 0, and end is after the step's last character"
        )
    return Step(start, end, bool(right))


def load_checker(name: str) -> StepSource:
    """Finds a function that finds and checks steps.

    Args:
        name: ``MODULE:FUNCTION``. It is called with the prompt as the model got it (chat template and special tokens
            included) and the response's text (without special tokens).

    Raises:
        EvaluationError: There is no such function. What is returned raises it for steps that cannot be used.
    """
    module, colon, function = name.partition(":")
    try:
        found = getattr(import_module(module), function) if colon else None
    except (ImportError, AttributeError, ValueError) as error:
        raise EvaluationError(f"--steps {name}: {error}") from error
    if not callable(found):
        raise EvaluationError(f"--steps {name}: give MODULE:FUNCTION, as epgrpo_verl.quickstart.task:find_steps")

    def check(prompt: str, response: str) -> tuple[Step, ...]:
        try:
            steps = found(prompt, response)
        except Exception as error:
            raise EvaluationError(
                f"--steps {name} raised {type(error).__name__}: {error}. It was called with the prompt {prompt!r} and "
                f"the response {response!r}"
            ) from error
        return read_steps(steps, response, f"--steps {name}")

    return check


def read_label_lines(path: Path) -> list[dict[str, Any]]:
    """Reads a file of labels: one JSON record a line.

    Raises:
        EvaluationError: It cannot be read, or a line lacks prompt, response or steps.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise EvaluationError(f"--labels {path} cannot be read: {error}") from error
    records = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"--labels {path}, line {number}"
        try:
            record = json.loads(line)
        except ValueError as error:
            raise EvaluationError(f"{where}: not JSON ({error})") from error
        if not isinstance(record, dict) or not all(isinstance(record.get(key), str) for key in ("prompt", "response")):
            raise EvaluationError(f"{where}: it has to be a record with prompt, response and steps")
        if record.get("steps") is None:
            raise EvaluationError(
                f"{where}: no label. Put a list of {{start, end, right}} into steps, [] where the response has no step"
            )
        records.append({**record, "steps": read_steps(record["steps"], record["response"], where), "where": where})
    if not records:
        raise EvaluationError(f"--labels {path} has no lines")
    return records


def label_source(records: Sequence[dict[str, Any]], path: Path) -> StepSource:
    """Looks steps up in labels.

    Raises:
        EvaluationError: The same response to the same prompt has two different labels. What is returned raises it for
            a response without label.
    """
    labels: dict[tuple[str, str], tuple[Step, ...]] = {}
    for record in records:
        key = (record["prompt"], record["response"])
        if labels.setdefault(key, record["steps"]) != record["steps"]:
            raise EvaluationError(f"{record['where']}: the same prompt and response have another label further up")

    def look_up(prompt: str, response: str) -> tuple[Step, ...]:
        if (prompt, response) not in labels:
            raise EvaluationError(
                f"--labels {path} has no label for the response {response!r} to {prompt!r}. Both texts have to be the "
                "same to the letter, as in the samples.jsonl of the run that is to be labelled."
            )
        return labels[prompt, response]

    return look_up


def as_records(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """Steps as a file of labels has them."""
    return [asdict(step) for step in steps]
