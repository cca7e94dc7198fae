# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Training and evaluation data: from the published files to parquet that verl reads. ``epgrpo prepare --help``.

Imports neither torch nor verl.
"""

from .errors import PrepareError
from .prompt import INSTRUCTION, user_message
from .sources import BENCHMARKS, SOURCES, Source

__all__ = ["BENCHMARKS", "INSTRUCTION", "SOURCES", "PrepareError", "Source", "user_message"]
