# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The shapes an answer can have: one value, a list, a tuple, a union of intervals, a matrix, an assignment."""

import re
from typing import NamedTuple

_OPENING = {"(", "[", "{", r"\{"}
_CLOSING = {")", "]", "}", r"\}"}
_TOKEN = re.compile(r"\\begin\{matrix\}|\\end\{matrix\}|\\\\|\\[a-zA-Z]+|\\.|.", re.DOTALL)
_VARIABLE = r"(?:[a-zA-Z]|\\(?:alpha|beta|gamma|delta|theta|lambda|mu|phi|omega|rho|sigma|tau))(?:_\{\w+\})?"
_SEGMENT = r"(?:m?\\angle\s*|\\triangle\s*)?[A-Z]{2,3}|\\angle\s*[A-Z]|\\overline\{[A-Z]{2}\}"
_NAME = rf"(?:{_SEGMENT}|{_VARIABLE}(?:'*\({_VARIABLE}\))?|\({_VARIABLE}(?:,{_VARIABLE})+\)|\\text\{{[^{{}}]*\}})"
_ASSIGNMENT = re.compile(rf"({_NAME})=(.+)", re.DOTALL)
_MEMBERSHIP = re.compile(rf"({_VARIABLE})\s*\\in\s*(?=[(\[]|\\\{{)")
_SET_BUILDER = re.compile(rf"\\\{{({_VARIABLE})(?:\\in\s*\\mathbb\{{R\}})?(?:\\mid|\||:)(.+)\\\}}", re.DOTALL)
_RELATION = re.compile(r"\\le(?![a-z])|\\ge(?![a-z])|<|>")
_LIST_SEPARATORS = frozenset({",", ";", r"\lor"})
_UNION_SEPARATORS = frozenset({r"\cup", r"\lor"})
_INFINITE = {r"\infty", r"-\infty"}


class Interval(NamedTuple):
    """An interval with its ends as text. ``variable`` is set where it was written as an inequality."""

    low: str
    low_closed: bool
    high: str
    high_closed: bool
    variable: str | None = None


class Group(NamedTuple):
    """Several answers. ``kind`` is ``list`` (bare), ``set`` (braces) or ``tuple`` (parentheses)."""

    kind: str
    items: tuple[str, ...]


def split_top_level(text: str, separators: frozenset[str]) -> list[str]:
    """Splits ``text`` at separators outside every bracket. An unbalanced text is not split."""
    parts: list[str] = []
    depth = start = 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in _OPENING or token.startswith(r"\begin"):
            depth += 1
        elif token in _CLOSING or token.startswith(r"\end"):
            depth -= 1
        elif depth == 0 and token in separators:
            parts.append(text[start : match.start()].strip())
            start = match.end()
        if depth < 0:
            return [text]
    parts.append(text[start:].strip())
    return parts if depth == 0 else [text]


def split_assignment(text: str) -> tuple[str | None, str]:
    """Splits ``x=5`` into its name and its value. The name is ``None`` where the text assigns nothing.

    An equation with an expression on the left, such as ``3x-y+13=0``, assigns nothing. ``x=a=b`` has the value ``b``.
    """
    match = _ASSIGNMENT.fullmatch(text)
    later_items = split_top_level(text, _LIST_SEPARATORS)[1:]
    if match is None or any("=" in item for item in later_items) or _RELATION.search(match[2]):
        return None, text
    return match[1], split_top_level(match[2], frozenset("="))[-1]


def parse_intervals(text: str) -> tuple[Interval, ...] | None:
    """Reads a union of intervals or of inequalities, or returns ``None`` where the text is anything else."""
    if match := _SET_BUILDER.fullmatch(text):
        text = match[2]
    elif match := _MEMBERSHIP.match(text):
        text = text[match.end() :]
    intervals = []
    for part in split_top_level(text, _UNION_SEPARATORS):
        interval = _bracket_interval(part) or _inequality(part)
        if interval is None:
            return None
        intervals.append(interval)
    return tuple(intervals)


def _bracket_interval(text: str) -> Interval | None:
    if len(text) < 5 or text[0] not in "([" or text[-1] not in ")]":
        return None
    ends = split_top_level(text[1:-1], frozenset(","))
    if len(ends) != 2 or not all(ends):
        return None
    return Interval(ends[0], text[0] == "[", ends[1], text[-1] == "]")


def _inequality(text: str) -> Interval | None:
    relations = _RELATION.findall(text)
    terms = [term.strip() for term in _RELATION.split(text)]
    if not all(terms) or "=" in text:
        return None
    if len(relations) == 2:
        low, variable, high = terms
        if relations[0] in (">", r"\ge"):
            low, high, relations = high, low, relations[::-1]
        if {relation in (">", r"\ge") for relation in relations} not in ({False}, {True}):
            return None
        closed = [relation in (r"\le", r"\ge") for relation in relations]
    elif len(relations) == 1:
        variable, bound = terms
        upwards = relations[0] in (">", r"\ge")
        if re.fullmatch(_VARIABLE, variable) is None:
            variable, bound, upwards = bound, variable, not upwards
        is_closed = relations[0] in (r"\le", r"\ge")
        low, high = (bound, r"\infty") if upwards else (r"-\infty", bound)
        closed = [is_closed and upwards, is_closed and not upwards]
    else:
        return None
    if re.fullmatch(_VARIABLE, variable) is None:
        return None
    return Interval(low, closed[0], high, closed[1], variable)


def is_infinite(end: str) -> bool:
    """Tells whether the end of an interval is infinite; such an end is open, whatever bracket stands there."""
    return end in _INFINITE


def parse_group(text: str) -> Group | None:
    """Reads a list, set or tuple of at least two answers, or a set of one; ``None`` where the text is one value."""
    if text.startswith(r"\{") and text.endswith(r"\}") and split_top_level(text, frozenset()) == [text]:
        return Group("set", _expand_signs(split_top_level(text[2:-2], _LIST_SEPARATORS)))
    parts = split_top_level(text, _LIST_SEPARATORS)
    if len(parts) > 1 or r"\pm" in text:
        items = _expand_signs(parts)
        return Group("list", items) if len(items) > 1 else None
    if text.startswith(("(", "[")) and text.endswith((")", "]")):
        items = tuple(split_top_level(text[1:-1], _LIST_SEPARATORS))
        if len(items) > 1:
            return Group("tuple", items)
    return None


def _expand_signs(items: list[str]) -> tuple[str, ...]:
    r"""Writes ``1 \pm a`` as the two answers it stands for."""
    expanded: list[str] = []
    for item in items:
        if r"\pm" in item:
            expanded.append(item.replace(r"\pm", "+").replace(r"\mp", "-").lstrip("+"))
            expanded.append(item.replace(r"\pm", "-").replace(r"\mp", "+"))
        else:
            expanded.append(item)
    return tuple(expanded)


def parse_matrix(text: str) -> tuple[tuple[str, ...], ...] | None:
    """Reads a matrix as rows of entries, or returns ``None``."""
    if not text.startswith(r"\begin{matrix}") or not text.endswith(r"\end{matrix}"):
        return None
    inner = text.removeprefix(r"\begin{matrix}").removesuffix(r"\end{matrix}")
    rows = [row for row in split_top_level(inner, frozenset({r"\\"})) if row]
    return tuple(tuple(split_top_level(row, frozenset("&"))) for row in rows)
