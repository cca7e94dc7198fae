# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The chained sums: problems, demonstrations, step checks and reward."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epgrpo_verl.quickstart.task import (
    DIFFICULTIES,
    Difficulty,
    check_steps,
    compute_score,
    demonstrate,
    derive,
    format_prompt,
    parse_answer,
    parse_prompt,
    parse_steps,
    sample_terms,
    solve,
)

TERMS = st.lists(st.integers(0, 9), min_size=2, max_size=8)


def score(response: str, terms: list[int]) -> float:
    return compute_score("chained_sums", response, solve(terms))["score"]


def test_a_derivation_worked_by_hand():
    # 3+5 = 8; 8+4 = 12, last digit 2; 2+9 = 11, last digit 1
    assert format_prompt([3, 5, 4, 9]) == "3+5+4+9="
    assert derive([3, 5, 4, 9]) == "3+5=8,8+4=2,2+9=1#1"
    assert solve([3, 5, 4, 9]) == "1"
    assert check_steps("3+5+4+9=", "3+5=8,8+4=2,2+9=1#1") == [True, True, True, True]


@pytest.mark.parametrize(
    ("response", "steps"),
    [
        ("3+5=9,9+4=3,3+9=2#2", [False, True, True, True]),  # the later steps follow from a wrong result
        ("3+5=9,8+4=2,2+9=1#1", [False, False, True, True]),  # the second does not go on from what the first states
        ("3+5=8,8+9=7,7+9=6#6", [True, False, True, True]),  # not the prompt's third digit
        ("3+5=8,8+4=2,2+9=1#2", [True, True, True, False]),
        ("3+5=8,8+4=2#2", [True, True, False]),  # one term is left
        ("3+5=8,8+4=2,2+9=1,1+0=1#1", [True, True, True, False, False]),  # a step too many
        ("3+5=8,8+4=2,2+9=1", [True, True, True]),  # no answer
        ("3+5=8,??,2+9=1#1", [True, False, True, True]),
        ("3+5=08,8+4=2,2+9=1#1", [False, True, True, True]),
        ("", []),
        ("#1", [False]),
    ],
)
def test_steps_worked_by_hand(response, steps):
    assert check_steps("3+5+4+9=", response) == steps


@given(TERMS)
def test_a_right_derivation_scores_one_and_has_only_right_steps(terms):
    response = derive(terms)
    assert parse_prompt(format_prompt(terms)) == terms
    assert score(response, terms) == 1.0
    assert check_steps(format_prompt(terms), response) == [True] * len(terms)


@given(TERMS, st.data())
def test_any_single_corrupted_character_is_found_in_its_step(terms, data):
    prompt, response = format_prompt(terms), derive(terms)
    # Separators are left whole: without one, two steps become one.
    places = [index for index, character in enumerate(response) if character not in ",#"]
    place = data.draw(st.sampled_from(places))
    other = data.draw(st.sampled_from([c for c in "0123456789+=x" if c != response[place]]))
    corrupted = response[:place] + other + response[place + 1 :]
    steps = parse_steps(prompt, corrupted)
    hit = next(step for step in steps if step.start <= place < step.end)
    assert not hit.right
    assert all(step.right for step in steps if step.end <= place)


@given(TERMS, st.data())
def test_any_single_slip_is_blamed_on_its_step_alone(terms, data):
    slips = [0] * (len(terms) - 1)
    wrong = data.draw(st.integers(0, len(slips) - 1))
    slips[wrong] = data.draw(st.integers(1, 9))
    response = derive(terms, slips)
    assert check_steps(format_prompt(terms), response) == [step != wrong for step in range(len(terms))]
    assert score(response, terms) == 0.0


@given(TERMS, st.text(alphabet="0123456789+=,# x", max_size=40))
def test_steps_cover_any_response(terms, response):
    steps = parse_steps(format_prompt(terms), response)
    assert "".join(response[step.start : step.end] for step in steps) == response


def test_two_mistakes_that_cancel_win():
    terms = [3, 5, 4, 9]
    response = derive(terms, [1, 0, -1])
    assert score(response, terms) == 1.0
    assert check_steps(format_prompt(terms), response) == [False, True, False, True]


@pytest.mark.parametrize("response", ["", "1", "3+5=8", "#", "#x", "#11", "# 1", "#1,", "1#"])
def test_a_response_without_a_clear_answer_scores_zero(response):
    assert parse_answer(response) is None
    assert compute_score("chained_sums", response, "1") == {"score": 0.0, "acc": False, "pred": ""}


def test_the_last_answer_counts():
    assert compute_score("chained_sums", "#2#1", "1") == {"score": 1.0, "acc": True, "pred": "1"}


@pytest.mark.parametrize("name", DIFFICULTIES)
def test_demonstrations_are_as_sloppy_as_said(name):
    difficulty, rng = DIFFICULTIES[name], random.Random(0)
    checked, wins = [], 0
    for _ in range(2000):
        terms = sample_terms(difficulty, rng)
        response = demonstrate(terms, difficulty, rng)
        assert len(response) == difficulty.response_chars
        assert len(format_prompt(terms)) == difficulty.prompt_chars
        checked += check_steps(format_prompt(terms), response)[:-1]
        wins += score(response, terms)
    assert sum(checked) / len(checked) == pytest.approx(1 - difficulty.mistake_rate, abs=0.03)
    # In `hard` mistakes hardly ever cancel, in `easy` they do at times.
    clean = (1 - difficulty.mistake_rate) ** (difficulty.num_terms - 1)
    luck = wins / 2000 - clean
    assert 0.02 < luck < 0.15 if name == "easy" else abs(luck) < 0.02


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"num_terms": 1}, "num_terms"),
        ({"max_term": 10}, "max_term"),
        ({"mistake_rate": 1.0}, "mistake_rate"),
        ({"mistakes": (10,)}, "mistakes"),
        ({"mistakes": ()}, "mistakes"),
    ],
)
def test_settings_out_of_range_are_named(settings, named):
    with pytest.raises(ValueError, match=named):
        Difficulty(**{"num_terms": 4, "max_term": 4, "mistake_rate": 0.3, **settings})


@pytest.mark.parametrize("prompt", ["", "3=", "3+5", "3+x=", "33+5="])
def test_a_prompt_that_is_no_sum_is_refused(prompt):
    with pytest.raises(ValueError, match="chained sum"):
        parse_prompt(prompt)
