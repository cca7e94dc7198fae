# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What the statistics need to know of a sample."""

from __future__ import annotations

from typing import NamedTuple


class Outcome(NamedTuple):
    """One sample.

    Attributes:
        right: Whether its answer is right.
        grader_error: Whether the grader failed; then ``right`` is False without meaning it.
        boxed: Whether it has an answer in a box; None where its grader does not look for one.
        truncated: Whether it was cut off at the token limit; None where that is not known.
        tokens: Its length; None where that is not known.
    """

    right: bool
    grader_error: bool
    boxed: bool | None
    truncated: bool | None
    tokens: int | None


class Answers(NamedTuple):
    """All samples of one problem.

    Attributes:
        id: Name of the problem; None where only its prompt is known.
        digest: Names its rendered prompt and answer.
        outcomes: Its samples.
    """

    id: str | None
    digest: str
    outcomes: tuple[Outcome, ...]
