# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""From the columns of each published file to problems with answers, with the known faults repaired."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from epgrpo_verl.grading.extract import last_box

from .errors import PrepareError
from .sources import TRAIN_DIFFICULTY_MODEL, Source


@dataclass
class Problem:
    """One problem.

    Attributes:
        id: Name of the row, unique within its source.
        index: Number of the row in the published file, from 0.
        text: The problem, without any instruction.
        golds: Answers, any of which is right.
        difficulty: Skywork's failures of 16 by `TRAIN_DIFFICULTY_MODEL`; None elsewhere.
        repairs: What was changed, in words.
    """

    id: str
    index: int
    text: str
    golds: tuple[str, ...]
    difficulty: int | None = None
    repairs: list[str] = field(default_factory=list)

    @property
    def ground_truth(self) -> str:
        """The answer as the grader takes it: itself, or a JSON list of several."""
        return self.golds[0] if len(self.golds) == 1 else json.dumps(list(self.golds))


def read_problem(source: Source, index: int, row: dict[str, Any]) -> Problem:
    """Read one row.

    Raises:
        PrepareError: A column is missing or empty, or holds what the source never does.
    """
    if source.name == "skywork":
        return _read_skywork(index, row)
    name = str(row.get("unique_id", row.get("id", index)))
    where = f"{source.name}, row {index}"
    text = _column(row, source.problem, where)
    answer = _column(row, source.answer, where)
    problem = Problem(name, index, text, (answer.strip(),))
    for repair in _REPAIRS.get(source.name, ()):
        repair(problem)
    return problem


def _column(row: dict[str, Any], names: Iterable[str], where: str) -> str:
    for name in names:
        if name in row:
            if row[name] is None or not str(row[name]).strip():
                raise PrepareError(f"{where}: column {name!r} is empty")
            return str(row[name])
    raise PrepareError(f"{where}: no column {' or '.join(map(repr, names))}; there are: {', '.join(sorted(row))}")


def _read_skywork(index: int, row: dict[str, Any]) -> Problem:
    where = f"skywork, row {index}"
    try:
        text = row["prompt"][0]["content"]
        truth = row["reward_model"]["ground_truth"]
        extra = row["extra_info"]
        difficulty = extra["model_difficulty"][TRAIN_DIFFICULTY_MODEL]
    except (KeyError, TypeError, IndexError) as error:
        raise PrepareError(
            f"{where}: no prompt[0].content, reward_model.ground_truth or "
            f"extra_info.model_difficulty.{TRAIN_DIFFICULTY_MODEL} ({type(error).__name__}: {error}); "
            f"there are: {', '.join(sorted(row))}"
        ) from error
    try:
        golds = json.loads(truth)
    except (TypeError, ValueError):
        golds = None
    if not isinstance(golds, list) or not all(isinstance(gold, str) for gold in golds):
        raise PrepareError(f"{where}: reward_model.ground_truth is no JSON list of strings: {truth!r}")
    name = str(extra.get("index", index))
    return Problem(name, index, str(text).strip(), tuple(gold.strip() for gold in golds), difficulty)


# LaTeX commands whose first letter, behind a backslash, some JSON writer took for a control character.
_SPOILT_COMMANDS = {
    "\f": ("rac", "orall"),
    "\t": ("riangle", "imes", "ext", "heta", "frac", "an", "o", "ilde"),
    "\b": ("eta", "egin", "inom", "ar", "oxed", "ullet", "mod", "f"),
    "\r": ("ight", "ho", "angle", "ceil", "floor"),
    "\v": ("arphi", "ec", "ee", "ert", "dots"),
    "\a": ("lpha", "ngle", "pprox", "rc"),
}
_LETTER_OF = {"\f": "f", "\t": "t", "\b": "b", "\r": "r", "\v": "v", "\a": "a"}
_SPOILT = re.compile(
    "|".join(f"{re.escape(char)}(?:{'|'.join(rests)})(?![a-z])" for char, rests in _SPOILT_COMMANDS.items())
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def restore_commands(problem: Problem) -> None:
    r"""Put the backslash back where a control character stands for the first letter of a command (``\frac``)."""
    text, count = _SPOILT.subn(lambda match: "\\" + _LETTER_OF[match[0][0]] + match[0][1:], problem.text)
    if count:
        problem.text = text
        problem.repairs.append(f"{count} control character(s) turned back into LaTeX commands")
    left = _CONTROL.search(problem.text)
    if left:
        raise PrepareError(f"row {problem.index} ({problem.id}): unexpected control character {left[0]!r}")


def integer_answer(problem: Problem) -> None:
    """Turn ``27.0`` into ``27``; any other non-integer is a fault.

    AMC answers are floats in the published file.
    """
    gold = problem.golds[0]
    match = re.fullmatch(r"(-?\d+)(\.0+)?", gold)
    if match is None:
        raise PrepareError(f"row {problem.index} ({problem.id}): the answer {gold!r} is no integer")
    if match[2]:
        problem.golds = (match[1],)
        problem.repairs.append(f"answer {gold} written as {match[1]}")


def unbox_answer(problem: Problem) -> None:
    r"""Take the answer out of its ``\boxed{}``: AIME24 has it in the column ``solution``."""
    gold = problem.golds[0]
    if "boxed" not in gold:
        return
    box = last_box(gold)
    if box.content is None:
        raise PrepareError(f"row {problem.index} ({problem.id}): no answer in {gold!r} ({box.problem})")
    problem.golds = (box.content,)


def aime_answer(problem: Problem) -> None:
    """Require an integer from 0 to 999, and write it without leading zeros."""
    gold = problem.golds[0]
    if not re.fullmatch(r"\d{1,3}", gold):
        raise PrepareError(f"row {problem.index} ({problem.id}): {gold!r} is no AIME answer (an integer, 0 to 999)")
    if gold != str(int(gold)):
        problem.golds = (str(int(gold)),)
        problem.repairs.append(f"answer {gold} written as {int(gold)}")


_WRONG_MINERVA_KEY = r"(t + \frac{1}{2} \sin{2t}) u(t)"
_RIGHT_MINERVA_KEY = (r"(t - \frac{1}{2} \sin{2t}) u(t)", r"t - \frac{1}{2} \sin{2t}")


def minerva_key(problem: Problem) -> None:
    """Mend the one wrong key of the published Minerva file, row 126: the sign before the sine."""
    if problem.golds == (_WRONG_MINERVA_KEY,):
        problem.golds = _RIGHT_MINERVA_KEY
        problem.repairs.append(f"wrong key {_WRONG_MINERVA_KEY} replaced by {_RIGHT_MINERVA_KEY[0]}")


def gsm8k_answer(problem: Problem) -> None:
    """Take what stands behind ``####``, where the published file ends its worked answer."""
    gold = problem.golds[0]
    if "####" in gold:
        problem.golds = (gold.rsplit("####", 1)[1].strip(),)
    if not re.fullmatch(r"-?[\d,]+(\.\d+)?", problem.golds[0]):
        raise PrepareError(f"row {problem.index} ({problem.id}): no number behind #### in {gold[-60:]!r}")


_REPAIRS: dict[str, tuple[Callable[[Problem], None], ...]] = {
    "amc23": (integer_answer,),
    "minerva": (minerva_key,),
    "aime24": (unbox_answer, aime_answer),
    "aime25": (restore_commands, aime_answer),
    "gsm8k": (gsm8k_answer,),
    "gsm8k_test": (gsm8k_answer,),
}


def golds_digest(problems: Iterable[Problem]) -> str:
    """SHA-256 of all answers after repair, sorted, one a line: the same whatever the file's format and order."""
    lines = sorted(problem.ground_truth for problem in problems)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
