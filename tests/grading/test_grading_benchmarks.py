# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The answers of the five benchmarks, graded against themselves and against their neighbours."""

import json
from pathlib import Path

import pytest

from epgrpo_verl.grading import compute_score, gold_problem

DATA = Path(__file__).parents[1] / "data" / "benchmarks"
ROWS = {"math500": 500, "amc23": 40, "minerva": 272, "aime24": 30, "aime25": 30}
# The neighbouring problems of MATH500 with the answers `5` and `x=5` have the same answer.
SAME_ANSWER = {("x=5", "5"), ("5", "x=5")}


def read(name: str) -> list[str]:
    return [json.loads(line)["answer"] for line in (DATA / f"{name}.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", ROWS)
def test_every_gold_is_right_against_itself(name: str) -> None:
    golds = read(name)
    assert len(golds) == ROWS[name]
    wrong = [gold for gold in golds if compute_score(name, rf"\boxed{{{gold}}}", gold)["score"] != 1.0]
    assert wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_every_gold_is_wrong_against_its_neighbour(name: str) -> None:
    golds = read(name)
    accepted = []
    for gold, other in zip(golds, golds[1:] + golds[:1], strict=True):
        if gold != other and (other, gold) not in SAME_ANSWER:
            result = compute_score(name, rf"\boxed{{{other}}}", gold)
            if result["score"] != 0.0 or result["grader_error"] != 0.0:
                accepted.append((other, gold, result["reason"]))
    assert accepted == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_every_gold_is_readable(name: str) -> None:
    problems = {gold: problem for gold in read(name) if (problem := gold_problem(gold))}
    assert problems == {}


@pytest.mark.parametrize(
    ("gold", "problem"),
    [
        ("9. Anya needs to climb the stairs", "prose"),
        (r"\frac{1", "unparsable"),
        ("", "empty"),
        ("x" * 401, "longer than 400 characters"),
        ('["15625"]', None),
        (r"\text{Evelyn}", None),
        (r"x \in [-2,7]", None),
    ],
)
def test_a_bad_gold_is_named(gold: str, problem: str | None) -> None:
    assert gold_problem(gold) == problem
