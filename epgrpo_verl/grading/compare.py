# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Comparing two normalised answers. The policies are listed in :func:`answers_equal`."""

import re
from collections.abc import Callable
from typing import NamedTuple

from .normalize import Answer, normalize
from .numbers import Number, numbers_equal, parse_number, split_base
from .structure import (
    Group,
    Interval,
    is_infinite,
    parse_group,
    parse_intervals,
    parse_matrix,
    split_assignment,
    split_top_level,
)
from .units import units_agree

SymbolicEqual = Callable[[str, str], bool]

_VARIABLE = re.compile(r"(?<![a-zA-Z\\])[a-zA-Z]")
_WORD = re.compile(r"\\text\{\(?([^{}()]*)\)?\}|([A-Za-z]+)")


class Undecided(Exception):  # noqa: N818
    """Raised where only a symbolic comparison can tell, and none was given."""


class Comparison(NamedTuple):
    """How two answers compare.

    Attributes:
        equal: The verdict.
        how: ``text``, ``unit``, ``number``, ``base``, ``word``, ``group``, ``interval``, ``matrix``, ``chain`` or
            ``symbolic``: the rule that decided.
    """

    equal: bool
    how: str


def answers_equal(
    pred: Answer, gold: Answer, symbolic: SymbolicEqual | None = None, rel_tol: float | None = None
) -> Comparison:
    """Compares an answer with the one asked for.

    The gold sets the shape. An interval equals the inequality that means it. Bare lists and sets compare as sets, a
    gold tuple keeps its order, and a part of several answers is wrong. A percent sign in the gold accepts ``28`` and
    ``0.28``; one in the answer alone is read as ``28`` or as ``0.28`` of a gold of at most 1. Known units that differ
    are wrong, a missing unit is not. Digits in a base agree in digits and base; an answer may leave the base out.

    Args:
        pred: The answer given.
        gold: The answer asked for.
        symbolic: Compares two single expressions (pred, gold) as mathematics.
        rel_tol: See :func:`epgrpo_verl.grading.numbers.numbers_equal`.

    Raises:
        Undecided: If a symbolic comparison is needed and ``symbolic`` is ``None``.
    """
    if not units_agree(pred.unit, gold.unit):
        return Comparison(False, "unit")
    if pred.body == gold.body and (pred.percent == gold.percent or gold.percent):
        return Comparison(True, "text")
    return _Comparer(symbolic, rel_tol).compare(pred, gold)


def leaves(body: str) -> list[str]:
    """Returns the single values a normalised answer consists of: entries, ends, items."""
    _, body = split_assignment(body)
    if rows := parse_matrix(body):
        items = sum(rows, ())
    elif intervals := parse_intervals(body):
        items = tuple(end for part in intervals for end in (part.low, part.high))
    elif group := parse_group(body):
        items = group.items
    else:
        return [body]
    return [leaf for item in items for leaf in leaves(item)]


def is_plain(leaf: str) -> bool:
    """Tells whether a single value is a number, digits in a base, or a word, and so needs no symbolic comparison."""
    return bool(parse_number(leaf) or split_base(leaf) or _WORD.fullmatch(leaf))


class _Comparer:
    def __init__(self, symbolic: SymbolicEqual | None, rel_tol: float | None) -> None:
        self.symbolic = symbolic
        self.rel_tol = rel_tol

    def compare(self, pred: Answer, gold: Answer) -> Comparison:
        pred_name, pred_value = split_assignment(pred.body)
        gold_name, gold_value = split_assignment(gold.body)
        same_name = pred_name is not None and pred_name == gold_name
        if same_name or (pred_name and "=" not in gold.body) or (gold_name and "=" not in pred.body):
            pred, gold = pred._replace(body=pred_value), gold._replace(body=gold_value)
        elif "=" not in gold.body and len(chain := split_top_level(pred.body, frozenset("="))) > 1:
            if not _VARIABLE.search(pred.body):
                # `\frac12=0.5` gives one value in several forms; all must be right.
                return Comparison(all(self._equal(part, gold.body) for part in chain), "chain")
        if matrix := self._matrices(pred.body, gold.body):
            return matrix
        if intervals := self._intervals(pred.body, gold.body):
            return intervals
        pred_group, gold_group = parse_group(pred.body), parse_group(gold.body)
        if pred_group or gold_group:
            return Comparison(self._groups(pred, gold, pred_group, gold_group), "group")
        return self._values(pred, gold)

    def _equal(self, pred: str, gold: str) -> bool:
        """Compares two items of a larger answer, which may carry units or a shape of their own."""
        if pred == gold:
            return True
        return answers_equal(normalize(pred), normalize(gold), self.symbolic, self.rel_tol).equal

    def _matrices(self, pred: str, gold: str) -> Comparison | None:
        pred_rows, gold_rows = parse_matrix(pred), parse_matrix(gold)
        if pred_rows is None or gold_rows is None:
            return None if pred_rows is gold_rows else Comparison(False, "matrix")
        same_shape = [len(row) for row in pred_rows] == [len(row) for row in gold_rows]
        pairs = zip(sum(pred_rows, ()), sum(gold_rows, ()), strict=False)
        return Comparison(same_shape and all(self._equal(*pair) for pair in pairs), "matrix")

    def _intervals(self, pred: str, gold: str) -> Comparison | None:
        pred_parts, gold_parts = parse_intervals(pred), parse_intervals(gold)
        if pred_parts is None or gold_parts is None:
            brackets = gold.endswith("]") or pred.endswith("]") or gold.startswith("[") or pred.startswith("[")
            one_sided = (gold_parts or pred_parts) is not None and brackets
            return Comparison(False, "interval") if one_sided else None
        if len(pred_parts) != len(gold_parts):
            return Comparison(False, "interval")
        return Comparison(self._same_items(pred_parts, gold_parts, self._same_interval), "interval")

    def _same_interval(self, pred: Interval, gold: Interval) -> bool:
        if pred.variable and gold.variable and pred.variable != gold.variable:
            return False
        return self._same_end(pred.low, pred.low_closed, gold.low, gold.low_closed) and self._same_end(
            pred.high, pred.high_closed, gold.high, gold.high_closed
        )

    def _same_end(self, pred: str, pred_closed: bool, gold: str, gold_closed: bool) -> bool:
        if is_infinite(pred) or is_infinite(gold):
            return pred == gold
        return pred_closed == gold_closed and self._equal(pred, gold)

    def _groups(self, pred: Answer, gold: Answer, pred_group: Group | None, gold_group: Group | None) -> bool:
        # A set of one value is that value.
        pred_group = pred_group or Group("list", (pred.body,))
        gold_group = gold_group or Group("list", (gold.body,))
        if gold_group.kind == "tuple":
            in_order = pred_group.kind != "set" and len(pred_group.items) == len(gold_group.items)
            return in_order and all(map(self._equal, pred_group.items, gold_group.items))
        return self._same_items(pred_group.items, gold_group.items, self._equal)

    @staticmethod
    def _same_items(pred: tuple, gold: tuple, equal: Callable[..., bool]) -> bool:
        """Tells whether two collections are the same set. Every pair is compared once, also in nested sets."""
        verdicts = [[equal(p, g) for g in gold] for p in pred]
        return all(any(row) for row in verdicts) and all(any(column) for column in zip(*verdicts, strict=True))

    def _values(self, pred: Answer, gold: Answer) -> Comparison:
        pred_base, gold_base = split_base(pred.body), split_base(gold.body)
        if gold_base or pred_base:
            return Comparison(self._bases(pred.body, pred_base, gold_base), "base")
        pred_number, gold_number = parse_number(pred.body), parse_number(gold.body)
        if pred_number and gold_number:
            return Comparison(self._numbers(pred_number, pred.percent, gold_number, gold.percent), "number")
        word = _words(pred.body, gold.body)
        if word is not None:
            return Comparison(word, "word")
        if self.symbolic is None:
            raise Undecided
        return Comparison(self.symbolic(pred.body, gold.body), "symbolic")

    @staticmethod
    def _bases(pred: str, pred_base: tuple[str, int] | None, gold_base: tuple[str, int] | None) -> bool:
        if pred_base is None and gold_base is not None:
            return (pred.upper().lstrip("0") or "0") == gold_base[0]
        return pred_base == gold_base

    def _numbers(self, pred: Number, pred_percent: bool, gold: Number, gold_percent: bool) -> bool:
        readings = [pred]
        hundredth = Number(pred.value / 100, exact=False)
        if gold_percent and not pred_percent:
            readings.append(Number(pred.value * 100, exact=False))
        elif pred_percent and not gold_percent and abs(gold.value) <= 1:
            readings.append(hundredth)
        return any(numbers_equal(reading, gold, self.rel_tol) for reading in readings)


def _words(pred: str, gold: str) -> bool | None:
    r"""Compares two words, or returns ``None`` where both may be products of variables.

    A word is a ``\text{}`` or a run of letters. Case is ignored in a ``\text{}`` and in words of three or more letters.
    """
    pred_match, gold_match = _WORD.fullmatch(pred), _WORD.fullmatch(gold)
    marked = [match for match in (pred_match, gold_match) if match and match[1] is not None]
    if not pred_match or not gold_match:
        # A text against an expression: only the same characters could have matched.
        return False if marked else None
    pred_word, gold_word = (match[1] if match[1] is not None else match[2] for match in (pred_match, gold_match))
    if pred_word.strip(".").casefold() == gold_word.strip(".").casefold() and (marked or len(gold_word) > 2):
        return True
    return False if marked else None
