# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Plain numbers: one written form in, one exact value out."""

import re
from fractions import Fraction
from typing import NamedTuple

REL_TOL = 1e-6
# Larger exponents are left to the symbolic comparison, which runs under a deadline and a memory limit.
MAX_EXPONENT = 400

_DECIMAL = r"\d+(?:\.\d+)?|\.\d+"
_POWER_OF_TEN = re.compile(r"10\^\{([+-]?\d+)\}")
_SCIENTIFIC = re.compile(rf"({_DECIMAL})\\cdot\s*10\^\{{([+-]?\d+)\}}")
_FRACTION = re.compile(rf"\\frac\{{([+-]?)({_DECIMAL})\}}\{{([+-]?)({_DECIMAL})\}}|({_DECIMAL})/({_DECIMAL})")
_PLAIN = re.compile(_DECIMAL)
_SIGN = re.compile(r"[+-]?")
_BASE = re.compile(r"(-?[0-9A-Za-z]+)_\{(\d+)\}")


class Number(NamedTuple):
    """A number as it was written.

    Attributes:
        value: The exact value.
        exact: True for an integer that is written out (``42``, ``27.0``), which leaves no room for rounding.
    """

    value: Fraction
    exact: bool


def parse_number(text: str) -> Number | None:
    """Reads a normalised answer as a number, or returns ``None`` where it is anything else.

    Reads integers, decimals, fractions and powers of ten, such as ``-0.5``, ``\\frac{1}{2}``, ``3/4`` and
    ``1.6\\cdot10^{-19}``.
    """
    sign = _SIGN.match(text)[0]
    body = text[len(sign) :]
    value, scientific = _unsigned_value(body)
    if value is None:
        return None
    value = -value if sign == "-" else value
    return Number(value, exact=value.denominator == 1 and not scientific)


def _unsigned_value(body: str) -> tuple[Fraction | None, bool]:
    if _PLAIN.fullmatch(body):
        return Fraction(body), False
    if match := _POWER_OF_TEN.fullmatch(body):
        return _power_of_ten(match[1]), True
    if match := _SCIENTIFIC.fullmatch(body):
        power = _power_of_ten(match[2])
        return (None if power is None else Fraction(match[1]) * power), True
    if match := _FRACTION.fullmatch(body):
        numerator = Fraction(match[2] or match[5])
        denominator = Fraction(match[4] or match[6])
        if denominator == 0:
            return None, False
        negative = (match[1] == "-") != (match[3] == "-")
        return (-numerator if negative else numerator) / denominator, False
    return None, False


def _power_of_ten(exponent: str) -> Fraction | None:
    if len(exponent) > 5 or abs(int(exponent)) > MAX_EXPONENT:
        return None
    return Fraction(10) ** int(exponent)


def numbers_equal(pred: Number, gold: Number, rel_tol: float | None = None) -> bool:
    """Tells whether two numbers agree.

    Args:
        pred: The number answered.
        gold: The number asked for.
        rel_tol: The relative tolerance for every gold, such as Minerva's 1e-2. By default a gold integer must be met
            exactly and any other gold within 1e-6 of its size. A tolerance is never absolute: 2.9e-19 is not 1.3e-27.
    """
    if pred.value == gold.value:
        return True
    if rel_tol is None:
        if gold.exact:
            return False
        rel_tol = REL_TOL
    return abs(pred.value - gold.value) <= Fraction(str(rel_tol)) * abs(gold.value)


def split_base(text: str) -> tuple[str, int] | None:
    """Splits ``4210_{5}`` into its digits and its base; ``None`` where the text is not written in a base."""
    match = _BASE.fullmatch(text)
    if match is None or not any(char.isdigit() for char in match[1]):
        return None
    base = int(match[2])
    if not 2 <= base <= 36:
        return None
    try:
        int(match[1], base)
    except ValueError:
        return None
    return match[1].upper().lstrip("0") or "0", base
