# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Reading what verl's validation wrote: ``trainer.validation_data_dir``, a file ``<step>.jsonl`` per validation.

A line is one sample: ``input`` and ``output`` (prompt and response, decoded without special tokens), ``gts`` (the
answer), ``score``, ``step``, and what the reward function returned beside the score. verl's trainer V1 adds ``uid``,
``<prompt>_<sample>_<turn>``. Neither the data source, nor token counts, nor finish reasons are in it; the project's
grader returns the first as ``graded_data_source``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from epgrpo_verl.data.errors import PrepareError
from epgrpo_verl.data.files import read_rows
from epgrpo_verl.grading.extract import last_box

from .errors import EvaluationError
from .grader import read_verdict
from .outcome import Answers, Outcome
from .problems import prompt_digest

UNNAMED = "validation"
"""The set of samples that do not say which they belong to."""

_COLUMNS = ("input", "output", "gts", "score")


def read_dump(path: Path) -> tuple[dict[str, list[Answers]], tuple[str, ...]]:
    """Read one file.

    Args:
        path: A file of ``trainer.validation_data_dir``.

    Returns:
        Set to its problems, and what the reader has to know about them.

    Raises:
        EvaluationError: It is no such file, or its scores do not tell right from wrong.
    """
    try:
        rows = read_rows(path)
    except PrepareError as error:
        raise EvaluationError(str(error)) from error
    if not rows:
        raise EvaluationError(f"{path} has no samples")
    for number, row in enumerate(rows, 1):
        missing = [column for column in _COLUMNS if column not in row]
        if missing:
            raise EvaluationError(
                f"{path}, line {number}: no {', '.join(missing)}: not a file of verl's trainer.validation_data_dir"
            )
    sets: dict[str, list[Answers]] = {}
    for samples in _by_problem(rows):
        first = samples[0]
        outcomes = tuple(_outcome(row, str(path)) for row in samples)
        answers = Answers(None, prompt_digest(first["input"], str(first["gts"])), outcomes)
        sets.setdefault(_set_of(first), []).append(answers)
    _check_prompts(sets, path)
    return sets, _notes(rows, sets)


def _set_of(row: dict[str, Any]) -> str:
    return str(row.get("graded_data_source") or row.get("data_source") or UNNAMED)


def _by_problem(rows: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Gather the samples of each problem: by uid where there is one, else by prompt and answer."""
    problems: dict[tuple[str, ...], dict[str, dict[str, Any]]] = {}
    for number, row in enumerate(rows):
        parts = str(row["uid"]).rsplit("_", 2) if row.get("uid") else []
        if len(parts) == 3:
            # A conversation of several turns has a line for each: all carry its score, the last one its answer.
            key, sample, turn = (parts[0],), parts[1], int(parts[2])
        else:
            key, sample, turn = (_set_of(row), str(row["input"]), str(row["gts"])), str(number), 0
        samples = problems.setdefault(key, {})
        if sample not in samples or turn > samples[sample]["turn"]:
            samples[sample] = {"turn": turn, "row": row}
    for samples in problems.values():
        yield [sample["row"] for sample in samples.values()]


def _outcome(row: dict[str, Any], where: str) -> Outcome:
    verdict = read_verdict(row, where)
    boxed = last_box(str(row["output"])).content is not None if "graded_data_source" in row else None
    return Outcome(verdict.score == 1.0, verdict.grader_error, boxed, None, None)


def _check_prompts(sets: dict[str, list[Answers]], path: Path) -> None:
    for name, problems in sets.items():
        numbers = Counter(len(answers.outcomes) for answers in problems)
        if len(numbers) > 1:
            usual = numbers.most_common(1)[0][0]
            odd = sum(count for number, count in numbers.items() if number != usual)
            raise EvaluationError(
                f"{path}: of the {len(problems)} problems of {name}, {odd} do not have the {usual} samples that the "
                "others have: the file is not whole, or a prompt is in the data twice"
            )


def _notes(rows: list[dict[str, Any]], sets: dict[str, list[Answers]]) -> tuple[str, ...]:
    notes = ["verl's validation dump has neither token counts nor finish reasons: no lengths, no truncation rate"]
    if UNNAMED in sets:
        notes.append(
            f"the samples do not name their set; they are counted as one, {UNNAMED!r}. The reward function "
            "epgrpo_verl.grading returns it as graded_data_source"
        )
    steps = sorted({str(row["step"]) for row in rows if "step" in row})
    if steps:
        notes.append(f"training step {', '.join(steps)}")
    return tuple(notes)
