# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Reward functions that do not do what they should."""


def minus_one(data_source: str, solution_str: str, ground_truth: str) -> float:
    """Gives -1 for wrong, as verl's math_dapo does."""
    return -1.0


def broken(data_source: str, solution_str: str, ground_truth: str) -> float:
    """Raises."""
    raise RuntimeError("no luck")
