# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Sums and short word problems for a small pretrained model, with a reward for a boxed or final number."""

# No "from __future__ import annotations": see epgrpo_verl.quickstart.task.
import random
import re
from dataclasses import dataclass
from typing import Any

INSTRUCTION = "Answer with the final number in \\boxed{}."

_NAMES = ("Anna", "Ben", "Chloe", "David", "Emma", "Felix", "Grace", "Hugo")
_THINGS = ("apples", "books", "coins", "marbles", "pens", "shells", "stamps", "stickers")
_BOXED = re.compile(r"\\boxed\s*\{([^{}]*)\}")
_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")


@dataclass(frozen=True)
class Problem:
    """A question and its answer, a whole number that is not negative."""

    question: str
    answer: int


def _sum(rng: random.Random) -> Problem:
    a, b = rng.randint(1, 20), rng.randint(1, 20)
    return Problem(f"What is {a} + {b}?", a + b)


def _difference(rng: random.Random) -> Problem:
    a, b = sorted((rng.randint(1, 20), rng.randint(1, 20)), reverse=True)
    return Problem(f"What is {a} - {b}?", a - b)


def _product(rng: random.Random) -> Problem:
    a, b = rng.randint(2, 9), rng.randint(2, 9)
    return Problem(f"What is {a} * {b}?", a * b)


def _gain(rng: random.Random) -> Problem:
    name, thing = rng.choice(_NAMES), rng.choice(_THINGS)
    a, b = rng.randint(2, 12), rng.randint(2, 12)
    return Problem(f"{name} has {a} {thing} and gets {b} more. How many {thing} does {name} have now?", a + b)


def _loss(rng: random.Random) -> Problem:
    name, thing = rng.choice(_NAMES), rng.choice(_THINGS)
    a, b = rng.randint(8, 20), rng.randint(2, 7)
    return Problem(f"{name} has {a} {thing} and gives {b} away. How many {thing} are left?", a - b)


def _boxes(rng: random.Random) -> Problem:
    name, thing = rng.choice(_NAMES), rng.choice(_THINGS)
    a, b = rng.randint(2, 6), rng.randint(2, 6)
    return Problem(f"{name} fills {a} boxes with {b} {thing} each. How many {thing} are in the boxes?", a * b)


def _two_steps(rng: random.Random) -> Problem:
    first, second = rng.sample(_NAMES, 2)
    thing = rng.choice(_THINGS)
    a, b = rng.randint(2, 9), rng.randint(1, 6)
    question = f"{first} has {a} {thing}. {second} has {b} more than {first}. How many {thing} do they have together?"
    return Problem(question, 2 * a + b)


_KINDS = (_sum, _difference, _product, _gain, _loss, _boxes, _two_steps)


def sample_problem(rng: random.Random) -> Problem:
    """Draws a sum or a word problem."""
    return rng.choice(_KINDS)(rng)


def parse_answer(response: str) -> str | None:
    """Returns the number in the last ``\\boxed{}``, or else the last number of the response, or None.

    A box without a number counts as no answer: the response did say where its answer is.
    """
    boxes = _BOXED.findall(response)
    numbers = _NUMBER.findall(boxes[-1] if boxes else response)
    return numbers[-1].replace(",", "") if numbers else None


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: dict[str, Any] | None = None, **kwargs: Any
) -> dict[str, Any]:
    """Scores a response by its final number, for verl's ``reward.custom_reward_function``.

    Args:
        data_source: Unused; verl passes it.
        solution_str: The response's text without special tokens.
        ground_truth: The right number.
        extra_info: Unused; verl passes it.
        **kwargs: Unused; verl passes more in some settings.

    Returns:
        ``score`` (1.0 or 0.0), ``acc`` (whether the answer is right) and ``pred`` (the answer, "" where there is none).
    """
    answer = parse_answer(solution_str)
    right = answer is not None and float(answer) == float(ground_truth)
    return {"score": float(right), "acc": right, "pred": answer or ""}
