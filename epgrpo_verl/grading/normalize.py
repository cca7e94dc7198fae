# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Bringing a written answer to one form, the same for the answer given and the answer asked for."""

import re
from functools import lru_cache
from typing import NamedTuple

from .extract import closing_brace
from .spelling import COMMAND, one_spelling
from .units import canonical_unit

_NUMBER = r"(?:\d+(?:\.\d+)?|\.\d+)"
_SEPARATOR_WORDS = re.compile(r"\\text\{\s*,?\s*(and|or)\s*\}|(?<![\\a-zA-Z])(and|or)(?![a-zA-Z])")
_E_NOTATION = re.compile(rf"(?<![\w.\\])({_NUMBER}|\d+\.)[eE]([+-]?\d+)(?![\w.])")
_MIXED_LATEX = re.compile(r"(?<![\d.}\w^/])(\d+)\s*\\frac\{(\d+)\}\{(\d+)\}")
_MIXED_PLAIN = re.compile(r"(?<![\d.}\w^/])(\d+)\s+(\d+)\s*/\s*(\d+)(?![\d.])")
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_ROOT_INDEX = re.compile(r"\s*(\[[^\[\]]*\])")
_DIGITS = re.compile(r"\s*(\d+)")
_UNIT_WORDS = r"\\text\{([^{}]*)\}|([a-zA-Z][a-zA-Z. ]*)"
_UNIT = re.compile(rf"(?<=[\da-z}})])\s*(?:{_UNIT_WORDS})\s*(?:\^\s*(?:\{{\s*(-?\d)\s*\}}|(-?\d)))?\s*(?=$|[,)\]])")


class Answer(NamedTuple):
    r"""An answer in the form in which answers are compared.

    Attributes:
        body: The answer without white space, dressing, units and percent sign.
        unit: The last unit, in one spelling (``5 \text{ inches}`` gives ``in``), or ``None``.
        percent: Whether the answer carries a percent sign.
    """

    body: str
    unit: str | None = None
    percent: bool = False


@lru_cache(maxsize=4096)
def normalize(text: str) -> Answer:
    """Normalises one answer.

    The steps are: one spelling for characters and commands, separators (``and``, ``or``), numbers (thousands, mixed
    numbers, e-notation), units and percent, arguments of ``\\frac`` and ``\\sqrt``, then white space.
    """
    text = one_spelling(text)
    text = _separators(text)
    text, percent = _strip_percent(text)
    text = _braced_arguments(text)
    text = _numbers(text)
    text, unit = _strip_units(text)
    return Answer(_tidy(text), unit, percent)


def _separators(text: str) -> str:
    text = _SEPARATOR_WORDS.sub(lambda match: r"\lor " if "or" in (match[1], match[2]) else ",", text)
    text = re.sub(r",\s*(?=,|\\lor)", "", text)
    text = re.sub(r"\\text\{\s*(?:\(?([a-zA-Z])\)?)\s*\}", r"\\text{\1}", text)
    return text.rstrip(" .,;\\" if not text.endswith("\\}") else " ")


def _strip_percent(text: str) -> tuple[str, bool]:
    stripped = re.sub(r"\\?%|\\text\{\s*(?:percent|per cent)\s*\}|(?<=[\d} ])percent", "", text)
    return stripped.strip(), stripped != text


def _braced_arguments(text: str) -> str:
    r"""Writes ``\frac12`` as ``\frac{1}{2}``, ``\sqrt 51`` as ``\sqrt{51}``, ``x^2`` as ``x^{2}``."""
    out: list[str] = []
    index = 0
    while index < len(text):
        if text[index] in "^_":
            sign = text[index]
            argument, index = _argument(text, index + 1)
            out.append(f"{sign}{{{argument}}}")
        else:
            token, index = _token(text, index)
            out.append(token)
    return "".join(out)


def _token(text: str, index: int) -> tuple[str, int]:
    """Returns one character or one command with its arguments, normalised, and the index after it."""
    match = COMMAND.match(text, index)
    if match is None:
        return text[index], index + 1
    command, index = match[0], match.end()
    if command == r"\sqrt":
        if root := _ROOT_INDEX.match(text, index):
            command, index = command + root[1], root.end()
        digits = _DIGITS.match(text, index)
        argument, index = (digits[1], digits.end()) if digits else _argument(text, index)
        return f"{command}{{{argument}}}", index
    if command in (r"\frac", r"\binom"):
        first, index = _argument(text, index)
        second, index = _argument(text, index)
        return f"{command}{{{first}}}{{{second}}}", index
    return command, index


def _argument(text: str, index: int) -> tuple[str, int]:
    """Returns one TeX argument, normalised and without its braces, and the index after it."""
    while index < len(text) and text[index].isspace():
        index += 1
    if index >= len(text):
        return "", index
    if text[index] != "{":
        return _token(text, index)
    end = closing_brace(text, index + 1)
    if end is None:
        return _braced_arguments(text[index + 1 :]), len(text)
    return _braced_arguments(text[index + 1 : end]).strip(), end + 1


def _numbers(text: str) -> str:
    text = _E_NOTATION.sub(lambda match: rf"{match[1].rstrip('.')}\cdot 10^{{{int(match[2])}}}", text)
    text = re.sub(rf"({_NUMBER})\s*[xX]\s*(?=10\^)", r"\1\\cdot ", text)
    text = re.sub(r"(10\^\{)\s*\+?\s*(-?)\s*(\d+)\s*\}", r"\1\2\3}", text)
    text = _top_level_thousands(text)
    text = _MIXED_LATEX.sub(_improper, text)
    text = _MIXED_PLAIN.sub(_improper, text)
    return re.sub(r"(?<=\d)\.(?![\d.])", "", re.sub(r"(?<![\d.])\.(?=\d)", "0.", text))


def _improper(match: re.Match) -> str:
    whole, numerator, denominator = (int(group) for group in match.groups())
    if not 0 < numerator < denominator:
        return match[0]
    return rf"\frac{{{whole * denominator + numerator}}}{{{denominator}}}"


def _top_level_thousands(text: str) -> str:
    """Drops thousands commas outside brackets: ``1,234`` is a number, ``(1,234)`` is a pair."""
    depth_at = []
    depth = 0
    for char in text:
        depth += (char in "([") - (char in ")]")
        depth_at.append(depth)
    in_braced_set = r"\{" in text

    def join(match: re.Match) -> str:
        return match[0] if in_braced_set or depth_at[match.start()] > 0 else match[0].replace(",", "")

    return _THOUSANDS.sub(join, text)


def _strip_units(text: str) -> tuple[str, str | None]:
    text = re.sub(r"\^\{\s*\\circ\s*\}|\\circ\b", r"\\text{deg}", text)
    text = re.sub(r"(?<=\d)\s*(?:\^\{\s*'+\s*\}|'+)", "", text)
    unit = None
    if r"\dollar" in text:
        text, unit = text.replace(r"\dollar", "").strip(), "dollar"

    def drop(match: re.Match) -> str:
        nonlocal unit
        words = match[1] if match[1] is not None else match[2]
        known = canonical_unit(words, match[3] or match[4])
        if text[match.start() - 1].isalpha() and (known is None or match[1] is None):
            return match[0]
        if match[1] is None and (known is None or len(words.strip()) == 1):
            # Bare letters after a number are variables, unless they spell a unit.
            return match[0]
        if known is None and len(words.strip()) == 1:
            return words.strip() + match[0].partition("}")[2]
        unit = known or unit
        return ""

    text = _UNIT.sub(drop, text)
    return text.replace(r"\text{deg}", ""), unit


def _tidy(text: str) -> str:
    # A space is needed only between a command and a letter.
    text = re.sub(r"\s+", " ", text).strip()
    # Blanks group thousands, or part two numbers; they never join 5 and 6 into 56.
    text = re.sub(r"(?<=\d) (?=\d{3}(?!\d))", "", text)
    text = re.sub(r"(?<=\d) (?=\d)", ",", text)
    # An approximate value beside the exact one says nothing new.
    text = next((part for part in text.split(r"\approx") if part.strip()), text)
    text = re.sub(r"\\text\{\s*([^{}]*?)\s*\}", lambda match: rf"\text{{{match[1].replace(' ', '')}}}", text)
    text = re.sub(r"(\\[a-zA-Z]+) (?=[a-zA-Z])", "\\1\0", text).replace(" ", "").replace("\0", " ")
    text = re.sub(r"(?:^|(?<=[(,\[=]))\+(?=[\d\\.])", "", text)
    text = re.sub(r"\^\{('+)\}", r"\1", text).replace(r"+\infty", r"\infty")
    text = re.sub(r"(?<![\^_}\]a-zA-Z\\])\{(\w)\}", r"\1", text.rstrip(".,;"))
    while len(text) > 2 and text[0] == "{" and closing_brace(text, 1) == len(text) - 1:
        text = text[1:-1]
    if match := re.fullmatch(r"\(([+-]?[\d.]+|[A-Za-z]|\\text\{[A-Za-z]\})\)", text):
        text = match[1]
    return text
