# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""From steps in characters to steps in tokens."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from .steps import Step

# A trace has the texts of special tokens and does not say which these are. Whole tokens, never parts of a text.
_SPECIAL = re.compile(r"<\|[^<>]*\|>|<｜[^<>]*｜>|</?s>|<(bos|eos|pad|end_of_turn|start_of_turn)>")


def without_special(tokens: Sequence[str]) -> list[str]:
    """Replaces the text of tokens such as ``<|im_end|>`` or ``</s>`` by "", so that the others make the response."""
    return ["" if _SPECIAL.fullmatch(token) else token for token in tokens]


def token_steps(tokens: Sequence[str], steps: Sequence[Step]) -> list[int | None]:
    """Finds the step of each token: the one that most of the token's characters are in, the earlier of two equals.

    A token without text (a part of a character, a special token) belongs to no step.

    Args:
        tokens: The text that each token adds.
        steps: Steps in order, without overlap; characters of the joined texts.

    Returns:
        For each token the number of its step, or None.
    """
    ends = [step.end for step in steps]
    found: list[int | None] = []
    start = 0
    for token in tokens:
        end = start + len(token)
        best, most = None, 0
        number = bisect_right(ends, start)  # the first step that ends after the token's start
        while number < len(steps) and steps[number].start < end:
            overlap = min(end, steps[number].end) - max(start, steps[number].start)
            if overlap > most:
                best, most = number, overlap
            number += 1
        found.append(best)
        start = end
    return found


def step_means(values: Sequence[float | None], token_step: Sequence[int | None], num_steps: int) -> list[float | None]:
    """Averages a quantity over the tokens of each step.

    Args:
        values: One per token; None on masked tokens, which do not count.
        token_step: What `token_steps` gave.
        num_steps: How many steps there are.

    Returns:
        One mean per step; None for a step without a token that counts.
    """
    sums, counts = [0.0] * num_steps, [0] * num_steps
    for value, number in zip(values, token_step, strict=True):
        if value is not None and number is not None:
            sums[number] += value
            counts[number] += 1
    return [total / count if count else None for total, count in zip(sums, counts, strict=True)]
