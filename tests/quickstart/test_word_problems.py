# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The sums and word problems of the SmolLM2 recipe, and their reward."""

from __future__ import annotations

import random

import pytest

from epgrpo_verl.quickstart.word_problems import compute_score, parse_answer, sample_problem


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (r"\boxed{12}", "12"),
        (r"It is \boxed{ 12 }, that is 5 more than 7.", "12"),
        (r"\boxed{5}, no: \boxed{12}", "12"),
        (r"\boxed{12 apples}", "12"),
        (r"\boxed{7 + 5 = 12}", "12"),
        ("7 + 5 = 12.", "12"),
        ("The answer is 1,200.", "1200"),
        ("He has 12.5 left", "12.5"),
        ("The answer is -3", "-3"),
        (r"12 \boxed{}", None),
        (r"12 \boxed{unknown}", None),
        ("twelve", None),
        ("", None),
    ],
)
def test_the_last_box_comes_before_the_last_number(response, answer):
    assert parse_answer(response) == answer


def test_the_score_compares_numbers():
    assert compute_score("word_problems", r"\boxed{12.0}", "12") == {"score": 1.0, "acc": True, "pred": "12.0"}
    assert compute_score("word_problems", "13", "12") == {"score": 0.0, "acc": False, "pred": "13"}
    assert compute_score("word_problems", "no idea", "12") == {"score": 0.0, "acc": False, "pred": ""}


def test_problems_are_the_same_for_the_same_seed_and_have_whole_answers():
    first, again = ([sample_problem(rng) for _ in range(300)] for rng in (random.Random(3), random.Random(3)))
    assert first == again
    assert all(problem.answer >= 0 for problem in first)
    assert len({problem.question.split()[0] for problem in first}) > 5  # sums and several names
    for problem in first:
        assert compute_score("word_problems", str(problem.answer), str(problem.answer))["acc"]


def test_answers_of_plain_sums_are_right():
    rng = random.Random(0)
    checked = 0
    for _ in range(300):
        problem = sample_problem(rng)
        if problem.question.startswith("What is "):
            a, operator, b = problem.question.removeprefix("What is ").removesuffix("?").split()
            assert problem.answer == {"+": int(a) + int(b), "-": int(a) - int(b), "*": int(a) * int(b)}[operator]
            checked += 1
    assert checked > 50
