# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Finding the box, and the one form of answers."""

import pytest

from epgrpo_verl.grading.extract import last_box
from epgrpo_verl.grading.normalize import Answer, normalize
from epgrpo_verl.grading.numbers import parse_number


@pytest.mark.parametrize(
    ("text", "content", "problem"),
    [
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}", None),
        (r"\boxed{1} no, \boxed{2}.", "2", None),
        (r"\boxed{\text{\boxed{3}}}", "3", None),
        (r"\boxed {4}", "4", None),
        (r"\boxed{\{1,2\}}", r"\{1,2\}", None),
        (r"\boxed{\left\{1\right.}", r"\left\{1\right.", None),
        (r"\fbox{5}", "5", None),
        (r"\boxed{6} then \boxed{7", None, "unterminated_box"),
        (r"\boxed{  }", None, "empty_box"),
        ("no box", None, "no_box"),
        (rf"\boxed{{{'1' * 400}}}", "1" * 400, None),
        (rf"\boxed{{{'1' * 401}}}", None, "box_too_long"),
    ],
)
def test_last_box(text: str, content: str | None, problem: str | None) -> None:
    assert last_box(text) == (content, problem)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\$32,\!348", Answer("32348", "dollar")),
        (r"11,\! 111,\! 111,\! 100", Answer("11111111100")),
        ("1,234.5", Answer("1234.5")),
        ("(1,234)", Answer("(1,234)")),
        ("0,1", Answer("0,1")),
        (r"24\;\text{cm}^2", Answer("24", "cm^2")),
        ("864 square inches", Answer("864", "in^2")),
        (r"90^{\circ}", Answer("90", "deg")),
        (r"50\,\%", Answer("50", None, True)),
        (r"1\frac45", Answer(r"\frac{9}{5}")),
        (r"2\frac{4}{3}", Answer(r"2\frac{4}{3}")),
        (r"10^2\frac12", Answer(r"10^{2}\frac{1}{2}")),
        ("1.60E-19", Answer(r"1.60\cdot10^{-19}")),
        ("-1./3", Answer("-1/3")),
        (r"\sqrt 51", Answer(r"\sqrt{51}")),
        (r"\sqrt[3]2", Answer(r"\sqrt[3]{2}")),
        (r"y^{\prime}+2", Answer("y'+2")),
        ("3m", Answer("3m")),
        (r"3\,\mathrm{m}", Answer("3", "m")),
        (r"\left(-\infty, +\infty\right)", Answer(r"(-\infty,\infty)")),
    ],
)
def test_normalize(text: str, answer: Answer) -> None:
    assert normalize(text) == answer


@pytest.mark.parametrize("text", ["x", "1/0", r"\frac{1}{0}", r"10^{99999}", "1,2", "", "--1", "1e5"])
def test_what_is_no_plain_number(text: str) -> None:
    assert parse_number(text) is None
