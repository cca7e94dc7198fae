# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""One grader for training and evaluation. Imports neither torch nor verl.

Use with verl::

    reward.custom_reward_function.path=pkg://epgrpo_verl.grading
    reward.custom_reward_function.name=compute_score_async
"""

from .pool import GraderUnavailable
from .score import close, compute_score, compute_score_async, gold_problem, grading_counts, parse_ground_truth

__all__ = [
    "GraderUnavailable",
    "close",
    "compute_score",
    "compute_score_async",
    "gold_problem",
    "grading_counts",
    "parse_ground_truth",
]
