# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Reward functions: one that finds some of a tiny model's random answers right, and some that are at fault."""

from typing import Any


def a_third_is_right(
    data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None, **kwargs: Any
) -> dict[str, Any]:
    """Depends on the response alone, which says nothing."""
    right = sum(map(ord, solution_str)) % 3 == 0
    return {"score": float(right), "acc": right, "pred": solution_str[-1:], "graded_data_source": data_source}


def minus_one(data_source: str, solution_str: str, ground_truth: str) -> float:
    """Gives -1 for wrong, as verl's math_dapo does."""
    return -1.0


def broken(data_source: str, solution_str: str, ground_truth: str) -> float:
    """Raises."""
    raise RuntimeError("no luck")
