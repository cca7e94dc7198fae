# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Measuring a model on benchmark problems: ``epgrpo evaluate`` and ``epgrpo compare``.

`statistics` has the formulas, one function each. `collect` samples and grades, `store` keeps the samples, `runs` and
`dump` read them back (`dump` from the files of verl's validation), `summary` turns them into numbers, and `table` and
`plot` show those.
"""

from .errors import EvaluationError
from .runs import load_run
from .statistics import pass_at_k
from .summary import summarize

__all__ = ["EvaluationError", "load_run", "pass_at_k", "summarize"]
