# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What a score is: keys, golds, cache, settings."""

import numpy as np
import pytest

from epgrpo_verl.grading import compute_score, grading_counts, parse_ground_truth

KEYS = ["score", "acc", "pred", "reason", "grader_error", "graded_data_source"]


@pytest.mark.parametrize(
    ("response", "score", "pred", "reason"),
    [
        (r"\boxed{042}", 1.0, "042", "number"),
        (r"\boxed{42}", 1.0, "42", "text"),
        (r"\boxed{41}", 0.0, "41", "different"),
        (r"\boxed{\foo}", 0.0, r"\foo", "unparsable"),
        (r"\boxed{", 0.0, "", "unterminated_box"),
        (r"\boxed{}", 0.0, "", "empty_box"),
        ("42", 0.0, "", "no_box"),
        ("", 0.0, "", "no_box"),
    ],
)
def test_the_keys_and_their_types_are_the_same_for_every_response(
    response: str, score: float, pred: str, reason: str
) -> None:
    result = compute_score("aime24", response, "42")
    assert list(result) == KEYS
    assert [type(value) for value in result.values()] == [float, float, str, str, float, str]
    assert result == {
        "score": score,
        "acc": score,
        "pred": pred,
        "reason": reason,
        "grader_error": 0.0,
        "graded_data_source": "aime24",
    }


@pytest.mark.parametrize(
    ("ground_truth", "golds"),
    [
        ("5", ("5",)),
        ('["15625"]', ("15625",)),
        ('["1", "2"]', ("1", "2")),
        ("[1, 2]", ("[1, 2]",)),
        ("[-2,7)", ("[-2,7)",)),
        (r"The answer is \boxed{033}.", ("033",)),
        (["1", "2"], ("1", "2")),
        (np.array(["1", "2"], dtype=object), ("1", "2")),
        (72, ("72",)),
    ],
)
def test_golds(ground_truth: object, golds: tuple[str, ...]) -> None:
    assert parse_ground_truth(ground_truth) == golds


@pytest.mark.parametrize("ground_truth", [None, "", "  ", [], '[""]', ["1", ""]])
def test_a_missing_gold_is_an_error_that_names_the_column(ground_truth: object) -> None:
    with pytest.raises(ValueError, match=r"'math'.*reward_model\.ground_truth"):
        compute_score("math", r"\boxed{1}", ground_truth)


def test_one_score_per_response_in_order() -> None:
    responses = [r"\boxed{1}", "", r"\boxed{3}", "", r"\boxed{5}"]
    scores = [
        compute_score("order", response, gold)["score"] for response, gold in zip(responses, "12345", strict=True)
    ]
    assert scores == [1.0, 0.0, 1.0, 0.0, 1.0]


def test_a_wider_tolerance_is_asked_for_and_holds_for_every_number() -> None:
    for pred, gold in [("2.998e8", "3e8"), ("301", "300"), ("1.61", "1.6")]:
        assert compute_score("minerva", rf"\boxed{{{pred}}}", gold)["score"] == 0.0
        assert compute_score("minerva", rf"\boxed{{{pred}}}", gold, rel_tol=1e-2)["score"] == 1.0
    assert compute_score("minerva", r"\boxed{1.7}", "1.6", rel_tol=1e-2)["score"] == 0.0


def test_a_setting_with_a_typo_is_refused() -> None:
    with pytest.raises(TypeError, match="deadline"):
        compute_score("math", r"\boxed{1}", "1", deadline=3.0)


def test_every_score_is_counted_by_its_reason() -> None:
    before = grading_counts()
    for response in [r"\boxed{1}", r"\boxed{2}", "none"]:
        compute_score("count", response, "1")
    assert grading_counts() - before == {"text": 1, "different": 1, "no_box": 1}
