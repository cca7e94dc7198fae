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
from sympy import Basic, Eq, Expr, Rational
from sympy.core.function import AppliedUndef

from .numbers import REL_TOL

logging.getLogger("math_verify").setLevel(logging.ERROR)

# math-verify lower-cases symbols by default, which makes `r` and `R` of one formula the same symbol.
_CONVERSION = ConversionConfig(lowercase_symbols=False)
_DIGITS = 30
# Values for free symbols: positive, irregular, and of moderate size.
_SAMPLES = (Rational(1373, 1000), Rational(611, 1000), Rational(2287, 1000))

_DERIVATIVE = re.compile(
    r"\\frac\{d(?:\^\{(\d)\})?\s*(\\?[a-zA-Z]+(?:_\{\w+\})?)\}\{d\s*([a-z])(?:\^\{\d\})?\}",
)
_DOTTED = re.compile(r"\\(d?dot)\{(\\?[a-zA-Z]+)\}(?:_\{(\w+)\})?")
_PRIMED = re.compile(r"([a-zA-Z])('+)")
_EULER_NAME = re.compile(r"(?<![a-zA-Z\\])([Ee])_\{(\w+)\}")
_SUBSCRIPT_COMMAND = re.compile(r"_\{\\(?:text\{)?([a-zA-Z]+)\}?\}")
_EXPONENTIAL = re.compile(r"\\exp(?=\{)")


class Unparsable(Exception):  # noqa: N818
    """Raised where an expression cannot be read as mathematics."""


def symbolic_equal(pred: str, gold: str) -> bool:
    """Tells whether two normalised expressions mean the same.

    Two equations mean the same if their sides differ by the same expression up to a constant factor. For anything
    else math-verify decides, and its verdict must hold numerically to a relative 1e-6: on its own it rounds to six
    decimals, which makes all tiny numbers equal.

    Raises:
        Unparsable: If either side cannot be read whole.
    """
    pred_expression, gold_expression = _same_letter_case(parse(pred), parse(gold))
    if isinstance(pred_expression, Eq) or isinstance(gold_expression, Eq):
        if not (isinstance(pred_expression, Eq) and isinstance(gold_expression, Eq)):
            return False
        return _same_equation(pred_expression, gold_expression)
    numeric = _numerically_equal(pred_expression, gold_expression)
    if numeric is False:
        return False
    return verify(gold_expression, pred_expression, timeout_seconds=None, raise_on_error=False)


@lru_cache(maxsize=512)
def parse(text: str) -> Basic:
    """Parses a normalised expression, all of it.

    Raises:
        Unparsable: If it cannot be read.
    """
    try:
        return latex2sympy(
            _plain_symbols(text),
            is_real=not should_treat_as_complex(text),
            normalization_config=None,
            conversion_config=_CONVERSION,
        )
    except (MemoryError, RecursionError):
        raise
    except Exception as error:
        raise Unparsable(text) from error


def _plain_symbols(text: str) -> str:
    """Names derivatives, primes, dots and ``E_1`` as plain symbols, which the parser would drop or evaluate to 0."""

    def name(*parts: str | None) -> str:
        return "Q_{" + "".join(re.sub(r"\W", "", part or "") for part in parts) + "}"

    text = _SUBSCRIPT_COMMAND.sub(r"_{\1}", text)
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
        renamed = {s: sympy.Symbol(s.name.lower(), **s.assumptions0) for s in symbols if s.name != s.name.lower()}
        lowered.append(expression.xreplace(renamed) if renamed else expression)
    return lowered[0], lowered[1]


def _numerically_equal(pred: Basic, gold: Basic) -> bool | None:
    """Compares the values at sample points; ``None`` where values cannot be computed."""
    if not all(isinstance(side, Expr) and not side.has(AppliedUndef) for side in (pred, gold)):
        return None
    symbols = sorted(pred.free_symbols | gold.free_symbols, key=str)
    for shift in range(2 if symbols else 1):
        point = {symbol: _SAMPLES[(i + shift) % 3] + Rational(i, 7) for i, symbol in enumerate(symbols)}
        values = [_value(side, point) for side in (pred, gold)]
        if None in values:
            return None
        if abs(values[0] - values[1]) > REL_TOL * abs(values[1]):
            return False
    return True


def _value(expression: Expr, point: dict) -> Expr | None:
    value = expression.subs(point).doit().evalf(_DIGITS)
    return value if value.is_number and value.is_finite else None


def _same_equation(pred: Eq, gold: Eq) -> bool:
    sides = [sympy.numer(sympy.together(equation.lhs - equation.rhs)) for equation in (pred, gold)]
    symbols = sorted(sides[0].free_symbols | sides[1].free_symbols, key=str)
    if not symbols or sides[0].free_symbols != sides[1].free_symbols:
        return False
    ratios = []
    for shift in range(3):
        point = {symbol: _SAMPLES[(i + shift) % 3] + Rational(i + shift, 7) for i, symbol in enumerate(symbols)}
        values = [_value(side, point) for side in sides]
        if None in values or values[1] == 0:
            return False
        ratios.append(values[0] / values[1])
    return ratios[0] != 0 and all(abs(ratio - ratios[0]) <= REL_TOL * abs(ratios[0]) for ratio in ratios[1:])

