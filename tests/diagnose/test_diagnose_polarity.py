# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Steps, their tokens, and the polarity of their advantages."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epgrpo_verl.diagnose.polarity import (
    JudgedGroup,
    JudgedResponse,
    JudgedStep,
    grpo_groups,
    polarity,
)
from epgrpo_verl.diagnose.steps import Step, label_source, load_checker, read_label_lines, read_steps
from epgrpo_verl.diagnose.text import step_means, token_steps, without_special
from epgrpo_verl.evaluation.errors import EvaluationError
from epgrpo_verl.quickstart.model import build_tokenizer, encode_prompts
from epgrpo_verl.quickstart.task import find_steps, parse_steps

STEPS = st.lists(
    st.builds(JudgedStep, st.booleans(), st.none() | st.sampled_from([-1.5, -0.1, 0.0, 0.2, 2.0])), max_size=4
)
GROUPS = st.lists(
    st.builds(
        JudgedGroup,
        st.lists(st.builds(JudgedResponse, st.booleans(), STEPS.map(tuple)), min_size=1, max_size=4).map(tuple),
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


@given(GROUPS)
def test_polarity_against_brute_force(groups):
    found = polarity(groups, 100)
    steps = [(r.won, s.right, s.advantage) for g in groups for r in g.responses for s in r.steps]
    steps = [one for one in steps if one[2] is not None]

    def share(part, whole):
        return None if not whole else pytest.approx(len(part) / len(whole))

    right_failed = [a for won, right, a in steps if right and not won]
    wrong_won = [a for won, right, a in steps if won and not right]
    expected = {
        "right_punished": share([a for a in right_failed if a < 0], right_failed),
        "right_rewarded": share([a for a in right_failed if a > 0], right_failed),
        "wrong_in_winning": share(wrong_won, [1 for won, _, _ in steps if won]),
        "wrong_rewarded": share([a for a in wrong_won if a > 0], wrong_won),
        "wrong_punished": share([a for a in wrong_won if a < 0], wrong_won),
        "right_in_failed": share(right_failed, [1 for won, _, _ in steps if not won]),
        "equal_groups": share([g for g in groups if g.equal], groups),
    }
    got = {name: getattr(found, name) for name in expected}
    assert {name: one and one.value for name, one in got.items()} == expected
    assert found.counts.untrained + len(steps) == sum(len(r.steps) for g in groups for r in g.responses)


def test_grpo_by_hand():
    advantages, equal = grpo_groups([[1, 0, 0, 0], [0, 0], [1, 1, 1]])
    assert equal == [False, True, True]
    # mean 1/4, sample std 1/2
    assert advantages[0] == pytest.approx([1.5, -0.5, -0.5, -0.5], rel=1e-5)
    assert advantages[1:] == [[0, 0], [0, 0, 0]]


def test_under_grpo_a_right_step_of_a_failed_response_is_punished_unless_all_fail():
    advantages, equal = grpo_groups([[1, 0], [0, 0]])
    steps = [(False, True), (True, True)]
    groups = [
        JudgedGroup(
            tuple(
                JudgedResponse(score == 1, tuple(JudgedStep(right, advantage) for right in mine))
                for score, advantage, mine in zip(scores, of_group, steps, strict=True)
            ),
            same,
        )
        for scores, of_group, same in zip([[1, 0], [0, 0]], advantages, equal, strict=True)
    ]
    found = polarity(groups)
    assert found.right_punished.value == pytest.approx(2 / 5)
    assert found.wrong_in_winning.value == found.wrong_rewarded.value / 2 == 0.5
    assert found.equal_groups.value == 0.5


@given(st.data())
def test_tokens_belong_to_the_step_that_has_most_of_them(data):
    tokens = data.draw(st.lists(st.text("ab", max_size=4), max_size=10))
    length = sum(map(len, tokens))
    edges = sorted(data.draw(st.sets(st.integers(0, length), max_size=7)))
    steps = [Step(a, b, True) for a, b in zip(edges, edges[1:], strict=False) if data.draw(st.booleans())]
    owner = [next((n for n, s in enumerate(steps) if s.start <= c < s.end), None) for c in range(length)]
    expected, start = [], 0
    for token in tokens:
        mine = [one for one in owner[start : start + len(token)] if one is not None]
        expected.append(max(sorted(set(mine)), key=mine.count, default=None))
        start += len(token)
    assert token_steps(tokens, steps) == expected


def test_means_leave_masked_tokens_out():
    assert step_means([1.0, None, 3.0, 9.0, None], [0, 0, 0, None, 1], 3) == [2.0, None, None]


def test_special_tokens_are_no_text():
    tokens = ["3+", "<|im_start|>", "<", "|", "</s>", "<｜end▁of▁sentence｜>", "<end_of_turn>", "<b>", "a <|x|>"]
    assert without_special(tokens) == ["3+", "", "<", "|", "", "", "", "<b>", "a <|x|>"]


def test_the_quickstarts_steps_are_found_in_the_prompt_that_the_model_gets():
    tokenizer = build_tokenizer()
    prompt = tokenizer.decode(encode_prompts(tokenizer, ["3+5+2="])[0], skip_special_tokens=False)
    assert prompt != "3+5+2="
    response = "3+5=8,8+2=1#1"
    assert find_steps(prompt, response) == parse_steps("3+5+2=", response)
    assert [step.right for step in find_steps("an example: 1+1=2. Now 3+5+2=", response)] == [True, False, True]
    with pytest.raises(ValueError, match="no chained sum"):
        find_steps("13+5=", response)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([{"start": 0, "end": 3, "right": True}, {"start": 2, "end": 4, "right": True}], "0-3 and 2-4 overlap"),
        ([{"start": 0, "end": 6, "right": True}], "from character 0 to 6 is not within the 5 characters"),
        ([{"start": 2, "end": 2, "right": True}], "not within"),
        ([{"start": -1, "end": 2, "right": True}], "not within"),
        ([{"start": 0, "end": 2}], "right=None"),
        ([{"start": 0, "end": 2.0, "right": True}], "whole numbers"),
        ([{"start": 0, "end": 2, "right": 3}], "true or false"),
        (None, "a list of steps"),
        ("abc", "a list of steps"),
    ],
)
def test_steps_that_cannot_be_used(steps, message):
    with pytest.raises(EvaluationError, match=message):
        read_steps(steps, "abcde", "here")


def test_steps_come_in_the_order_of_the_text():
    found = read_steps([Step(3, 5, False), {"start": 0, "end": 2, "right": 1}], "abcde", "here")
    assert found == (Step(0, 2, True), Step(3, 5, False))


def test_checkers():
    check = load_checker("epgrpo_verl.quickstart.task:find_steps")
    assert check("3+5=", "3+5=8#8") == (Step(0, 5, True), Step(5, 7, True))
    with pytest.raises(EvaluationError, match="raised ValueError: no chained sum.*'what[?]'"):
        check("what?", "")
    for name in ("epgrpo_verl.quickstart.task", "no_such_module:f", "json:nothing", "json:__name__"):
        with pytest.raises(EvaluationError, match=f"--steps {name}"):
            load_checker(name)


def test_labels(tmp_path):
    path = tmp_path / "labels.jsonl"
    line = {"prompt": "p", "response": "ab", "steps": [{"start": 0, "end": 2, "right": False}]}

    def source(*lines):
        path.write_text("\n".join(map(json.dumps, lines)) + "\n")
        return label_source(read_label_lines(path), path)

    look_up = source(line, line)
    assert look_up("p", "ab") == (Step(0, 2, False),)
    with pytest.raises(EvaluationError, match="no label for the response 'abc' to 'p'"):
        look_up("p", "abc")
    for lines, message in (
        ([{**line, "steps": None}], "line 1: no label"),
        ([line, {**line, "steps": []}], "line 2: the same prompt and response have another label"),
        ([line, {**line, "response": 3}], "line 2: it has to be a record"),
        ([line, {**line, "steps": [{"start": 0, "end": 3, "right": True}]}], "line 2: a step from character 0 to 3"),
    ):
        with pytest.raises(EvaluationError, match=message):
            source(*lines)
    path.write_text("{")
    with pytest.raises(EvaluationError, match="line 1: not JSON"):
        read_label_lines(path)
    path.write_text("")
    with pytest.raises(EvaluationError, match="has no lines"):
        read_label_lines(path)
    with pytest.raises(EvaluationError, match="cannot be read"):
        read_label_lines(tmp_path / "missing")
