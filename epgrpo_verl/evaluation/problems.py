# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Problems from the files of ``epgrpo prepare``, or any file with verl's columns."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epgrpo_verl.data.errors import PrepareError
from epgrpo_verl.data.files import read_rows

from .errors import EvaluationError


@dataclass(frozen=True)
class Problem:
    """One problem.

    Attributes:
        set: The set it belongs to: verl's ``data_source``.
        id: Its name, unique in its set.
        messages: Chat messages as they were prepared for training.
        ground_truth: The answer as the grader takes it.
    """

    set: str
    id: str
    messages: tuple[dict[str, str], ...]
    ground_truth: str


def load_problems(paths: Sequence[Path], limit: int | None = None) -> dict[str, list[Problem]]:
    """Read files and sort their problems by set.

    Args:
        paths: Files (.parquet, .jsonl, .json) with verl's columns.
        limit: Only the first so many problems of each set.

    Returns:
        Set to its problems, in the order of the files.

    Raises:
        EvaluationError: A file cannot be read or has no rows, a column is missing, or two problems share a name.
    """
    sets: dict[str, list[Problem]] = {}
    origin: dict[tuple[str, str], str] = {}
    for path in paths:
        try:
            rows = read_rows(path)
        except PrepareError as error:
            raise EvaluationError(f"--data: {error}") from error
        if not rows:
            raise EvaluationError(f"--data {path} has no rows")
        for number, row in enumerate(rows):
            where = f"{path}, row {number}"
            problem = _read(row, number, where)
            key = (problem.set, problem.id)
            if key in origin:
                raise EvaluationError(
                    f"{where}: the set {problem.set!r} already has a problem {problem.id!r} ({origin[key]}). "
                    "Give each file once, and each problem an extra_info.id of its own."
                )
            origin[key] = where
            sets.setdefault(problem.set, []).append(problem)
    return {name: problems[:limit] for name, problems in sets.items()}


def _read(row: dict[str, Any], number: int, where: str) -> Problem:
    for column in ("data_source", "prompt", "reward_model"):
        if column not in row:
            raise EvaluationError(
                f"{where}: no column {column!r}; there are: {', '.join(sorted(row))}. "
                "epgrpo prepare writes files with verl's columns."
            )
    if not row["data_source"]:
        raise EvaluationError(f"{where}: data_source is empty; it names the set that the problem belongs to")
    messages = row["prompt"]
    if not isinstance(messages, list) or not messages or not all(_is_message(message) for message in messages):
        raise EvaluationError(f"{where}: prompt is no list of chat messages with role and content")
    truth = (row["reward_model"] or {}).get("ground_truth")
    if truth is None or not str(truth).strip():
        raise EvaluationError(f"{where}: reward_model.ground_truth is missing or empty")
    extra = row.get("extra_info") or {}
    name = next((extra[key] for key in ("id", "index") if extra.get(key) is not None), number)
    messages = tuple({"role": message["role"], "content": message["content"]} for message in messages)
    return Problem(str(row["data_source"]), str(name), messages, truth if isinstance(truth, str) else json.dumps(truth))


def _is_message(message: Any) -> bool:
    return isinstance(message, dict) and all(isinstance(message.get(key), str) for key in ("role", "content"))


def problems_digest(problems: Iterable[Problem]) -> str:
    """16 hexadecimal digits of the SHA-256 of names, messages and answers."""
    digest = hashlib.sha256()
    for problem in problems:
        digest.update(json.dumps([problem.id, list(problem.messages), problem.ground_truth]).encode() + b"\n")
    return digest.hexdigest()[:16]


def prompt_digest(prompt: str, ground_truth: str) -> str:
    """Names a problem by its rendered prompt and its answer, so that it is found again in verl's validation dumps."""
    return hashlib.sha256(json.dumps([prompt, ground_truth]).encode()).hexdigest()[:16]
