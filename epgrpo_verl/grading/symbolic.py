# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Comparing two expressions as mathematics, with math-verify and numeric checks of its verdict.

Nothing here has a time limit of its own: it runs in a worker process that :mod:`epgrpo_verl.grading.pool` guards.
"""

import logging
import re
from functools import lru_cache

import sympy
from latex2sympy2_extended import latex2sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig
from math_verify import verify
from math_verify.grader import should_treat_as_complex
from sympy import Abs, Basic, Eq, Expr, Rational, Symbol
from sympy.core.function import AppliedUndef

from .numbers import REL_TOL

logging.getLogger("math_verify").setLevel(logging.ERROR)

# math-verify lower-cases symbols by default, which makes `r` and `R` of one formula the same symbol.
_CONVERSION = ConversionConfig(lowercase_symbols=False)
_DIGITS = 30
_EXACT = Rational(1, 10**20)
_MODERATE = 10**12
# Values for free symbols: irregular and of moderate size.
_SAMPLES = (Rational(1373, 1000), Rational(611, 1000), Rational(2287, 1000))

_DERIVATIVE = re.compile(
    r"\\frac\{d(?:\^\{(\d)\})?\s*(\\?[a-zA-Z]+(?:_\{\w+\})?)\}\{d\s*([a-z])(?:\^\{\d\})?\}",
)
_DOTTED = re.compile(r"\\(d?dot)\{(\\?[a-zA-Z]+)\}(?:_\{(\w+)\})?")
_PRIMED = re.compile(r"([a-zA-Z])('+)")
_EULER_NAME = re.compile(r"(?<![a-zA-Z\\])([Ee])_\{(\w+)\}")
_SUBSCRIPT_COMMAND = re.compile(r"_\{(?:\\text\{([a-zA-Z]+)\}|\\([a-zA-Z]+))\}")
_EXPONENTIAL = re.compile(r"\\exp(?=\{)")


# Parsing is slow until the parser has seen each kind of expression once.
WARM_UP = (r"\frac{x^{2}+1}{\sqrt{3}a_{1}}e^{-t/2}\cos(2\pi t)-5!", r"y=-\frac{1}{2}x")


class Unparsable(Exception):  # noqa: N818
    """Raised where an expression cannot be read as mathematics."""


def symbolic_equal(pred: str, gold: str) -> bool:
    """Tells whether two normalised expressions mean the same.

    Two equations mean the same if their sides differ by the same expression up to a constant factor. Two expressions
    are first compared in value: what differs is wrong, and what agrees to 20 digits is right. In between, for very
    large and very small values, and for everything that has no value, math-verify decides. (On its own it rounds to
    six decimals, which makes all tiny numbers equal.)

    Raises:
        Unparsable: If either side cannot be read whole.
    """
    complex_numbers = should_treat_as_complex(pred) or should_treat_as_complex(gold)
    sides = parse(pred, complex_numbers), parse(gold, complex_numbers)
    equations = [isinstance(side, Eq) for side in sides]
    if any(equations):
        return all(equations) and _same_equation(*_same_letter_case(*(side.lhs - side.rhs for side in sides)))
    # Asked before sympy evaluates anything, which turns the root of a square into an absolute value.
    has_absolute_value = any(side.has(Abs) for side in sides)
    pred_expression, gold_expression = _same_letter_case(*sides)
    values = _sample_values(pred_expression, gold_expression, has_absolute_value)
    if values is not None:
        difference = max(_relative_difference(*pair) for pair in values)
        if difference > REL_TOL:
            return False
        # At 30 digits a huge value hides what is added to it.
        if difference <= _EXACT and all(1 / _MODERATE < abs(value) < _MODERATE for _, value in values):
            return True
    return verify(gold_expression, pred_expression, timeout_seconds=None, raise_on_error=False)


@lru_cache(maxsize=512)
def parse(text: str, complex_numbers: bool = False) -> Basic:
    """Parses a normalised expression, all of it. Its symbols are real, unless ``complex_numbers`` makes ``i`` a number.

    Raises:
        Unparsable: If it cannot be read.
    """
    try:
        expression = latex2sympy(
            _plain_symbols(text),
            is_real=not complex_numbers,
            normalization_config=None,
            conversion_config=_CONVERSION,
        )
        # An unknown function is one more quantity: `x(t)` has no value to compare.
        replaced = {function: Symbol(str(function)) for function in expression.atoms(AppliedUndef)}
        if complex_numbers:
            replaced |= {symbol: sympy.I for symbol in expression.free_symbols if symbol.name == "i"}
        return _with_symbols(expression, replaced)
    except (MemoryError, RecursionError):
        raise
    except Exception as error:
        raise Unparsable(text) from error


def _with_symbols(expression: Basic, symbols: dict[Basic, Expr]) -> Basic:
    """Replaces parts by symbols. An equation stays one, where sympy would evaluate it to true or false."""
    if not symbols:
        return expression
    if isinstance(expression, Eq):
        return Eq(expression.lhs.xreplace(symbols), expression.rhs.xreplace(symbols), evaluate=False)
    return expression.xreplace(symbols)


def _plain_symbols(text: str) -> str:
    """Names derivatives, primes, dots and ``E_1`` as plain symbols, which the parser would drop or evaluate to 0."""

    def name(*parts: str | None) -> str:
        return "Q_{" + "".join(re.sub(r"\W", "", part or "") for part in parts) + "}"

    text = _SUBSCRIPT_COMMAND.sub(lambda match: f"_{{{match[1] or match[2]}}}", text)
    text = _DERIVATIVE.sub(lambda match: name("d", match[1], match[2], "d", match[3]), text)
    text = _DOTTED.sub(lambda match: name(match[1], match[2], match[3]), text)
    text = _PRIMED.sub(lambda match: name(match[1], "prime" * len(match[2])), text)
    text = _EULER_NAME.sub(lambda match: name(match[1], match[2]), text)
    return _EXPONENTIAL.sub("e^", text)


def _same_letter_case(pred: Basic, gold: Basic) -> tuple[Basic, Basic]:
    """Lower-cases all symbols, unless one side tells ``r`` from ``R``."""
    lowered = []
    for expression in (pred, gold):
        symbols = getattr(expression, "free_symbols", set())
        if len({symbol.name.lower() for symbol in symbols}) < len(symbols):
            return pred, gold
        renamed = {s: Symbol(s.name.lower(), **s.assumptions0) for s in symbols if s.name != s.name.lower()}
        lowered.append(expression.xreplace(renamed) if renamed else expression)
    return lowered[0], lowered[1]


def _sample_values(pred: Basic, gold: Basic, has_absolute_value: bool) -> list[tuple[Expr, Expr]] | None:
    """Returns the values of two expressions at the sample points; ``None`` where either has no value.

    The only variable of an expression takes both signs, and so do all where an absolute value is taken. In other
    formulas the quantities are positive, so that ``\\sqrt{a r^2}`` is ``r \\sqrt{a}``.
    """
    if not all(isinstance(side, Expr) for side in (pred, gold)):
        return None
    both_signs = len(pred.free_symbols | gold.free_symbols) == 1 or has_absolute_value
    values = []
    for point in _points(pred, gold, count=3, both_signs=both_signs):
        pair = _value(pred, point), _value(gold, point)
        if None in pair:
            return None
        values.append(pair)
    return values


def _relative_difference(pred: Expr, gold: Expr) -> Expr:
    difference = abs(pred - gold)
    return difference / abs(gold) if gold else difference and sympy.oo


def _same_equation(pred: Expr, gold: Expr) -> bool:
    """Compares ``pred = 0`` with ``gold = 0``."""
    if pred.free_symbols != gold.free_symbols or not gold.free_symbols:
        return False
    if _constant_ratio(pred, gold):
        return True
    # The same equation may have been multiplied by a denominator.
    pred, gold = (sympy.numer(sympy.together(sympy.nsimplify(side, rational=True))) for side in (pred, gold))
    return _constant_ratio(pred, gold)


def _constant_ratio(pred: Expr, gold: Expr) -> bool:
    ratios = []
    for point in _points(pred, gold, count=3, both_signs=False):
        values = [_value(side, point) for side in (pred, gold)]
        if None in values or 0 in values:
            return False
        ratios.append(values[0] / values[1])
    return all(abs(ratio - ratios[0]) <= REL_TOL * abs(ratios[0]) for ratio in ratios[1:])


def _points(pred: Expr, gold: Expr, *, count: int, both_signs: bool) -> list[dict]:
    """Returns values for the free symbols, or a single empty point for two constants."""
    symbols = sorted(pred.free_symbols | gold.free_symbols, key=str)
    if not symbols:
        return [{}]
    points = []
    for shift in range(count):
        point = {symbol: _SAMPLES[(i + shift) % 3] + Rational(i + shift, 7) for i, symbol in enumerate(symbols)}
        sign = -1 if both_signs and shift % 2 else 1
        points.append({symbol: sign * value for symbol, value in point.items()})
    return points


def _value(expression: Expr, point: dict) -> Expr | None:
    value = expression.subs(point).doit().evalf(_DIGITS)
    return value if value.is_number and value.is_finite else None
