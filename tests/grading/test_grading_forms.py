# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Finding the box, and the one form of answers."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epgrpo_verl.grading.compare import answers_equal, leaves
from epgrpo_verl.grading.extract import last_box
from epgrpo_verl.grading.normalize import Answer, normalize
from epgrpo_verl.grading.numbers import parse_number

TOKENS = [
    *"019+-*/=<>()[]{},.;:|!^_ '%$&~xei",
    r"\frac",
    r"\sqrt",
    r"\text{",
    r"\left",
    r"\{",
    r"\}",
    r"\pm",
    r"\cup",
    r"\lor",
]
TOKENS += [
    r"\in",
    r"\infty",
    r"\pi",
    r"\begin{pmatrix}",
    r"\end{pmatrix}",
    r"\\",
    "\\",
    r"\circ",
    "1,000",
    "10^",
    "e5",
    "½",
]
TOKENS += [r"\times", r"\approx", " and ", " or ", r"\le", r"\%", "cm", r"\mathrm{m}", "²"]
GOLDS = [
    "5",
    "x=5",
    "(1,2)",
    "1,2",
    "[0,1]",
    r"\{1,2\}",
    r"\begin{pmatrix}1\\2\end{pmatrix}",
    "52_8",
    r"28\%",
    r"\text{(C)}",
]


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


@given(st.lists(st.sampled_from(TOKENS), max_size=60).map("".join), st.sampled_from(GOLDS))
@settings(max_examples=300, deadline=None)
def test_any_text_can_be_normalised_and_compared(text: str, gold: str) -> None:
    """No input raises, and an answer equals itself."""
    answer = normalize(text)
    assert isinstance(answers_equal(answer, normalize(gold), lambda pred, gold: False).equal, bool)
    assert answers_equal(answer, answer).equal
    assert all(isinstance(leaf, str) for leaf in leaves(answer.body))


@given(st.integers(-(10**12), 10**12))
def test_an_integer_is_the_same_number_however_it_is_written(value: int) -> None:
    forms = [f"{value}", f"{value}.0", f"{value:,}", rf"\${value}", rf"{value}\text{{ cm}}", rf"{value}^\circ"]
    forms += [rf"\frac{{{2 * value}}}{{2}}", f"{value}/1", f"{value:,}".replace(",", "{,}")]
    for form in forms:
        assert parse_number(normalize(form).body).value == value, form


@given(st.floats(min_value=1e-30, max_value=1e30), st.sampled_from(["e", "E"]))
def test_scientific_notation_is_one_number(value: float, letter: str) -> None:
    mantissa, exponent = f"{value:.4e}".split("e")
    plain = parse_number(normalize(f"{mantissa}{letter}{int(exponent)}").body)
    for sign in (r"\times", r"\cdot", "*", "x", "×"):
        assert parse_number(normalize(rf"{mantissa} {sign} 10^{{{int(exponent)}}}").body) == plain
    assert plain.value == Fraction(f"{value:.4e}")
