# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Finding the final answer in a response: the last balanced ``\\boxed{}`` or ``\\fbox{}``."""

import re
from typing import NamedTuple

MAX_BOX_CHARS = 400

_BOX_START = re.compile(r"\\(?:boxed|fbox)\s*\{")
_BRACE_OR_ESCAPE = re.compile(r"\\.|[{}]", re.DOTALL)


class Box(NamedTuple):
    """The last box of a response.

    Attributes:
        content: What stands between the braces, stripped. ``None`` where there is no usable box.
        problem: ``None``, or why there is no usable box: ``no_box``, ``unterminated_box``, ``empty_box`` or
            ``box_too_long``.
    """

    content: str | None
    problem: str | None


def last_box(text: str) -> Box:
    r"""Returns the content of the last box of ``text``.

    The last box wins, so a self-correction counts as the answer. A last box that never closes is no answer, and no
    earlier box takes its place: a response that was cut off has not answered. Escaped braces (``\{``) are text. The
    time is linear in the length of ``text``.
    """
    starts = [match.end() for match in _BOX_START.finditer(text)]
    if not starts:
        return Box(None, "no_box")
    end = closing_brace(text, starts[-1])
    if end is None:
        return Box(None, "unterminated_box")
    content = text[starts[-1] : end].strip()
    if not content:
        return Box(None, "empty_box")
    if len(content) > MAX_BOX_CHARS:
        return Box(None, "box_too_long")
    return Box(content, None)


def closing_brace(text: str, start: int) -> int | None:
    """Returns the index of the brace that closes a group whose content begins at ``start``, or ``None``."""
    depth = 1
    for match in _BRACE_OR_ESCAPE.finditer(text, start):
        if match[0] == "{":
            depth += 1
        elif match[0] == "}":
            depth -= 1
            if depth == 0:
                return match.start()
    return None
