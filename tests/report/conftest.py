# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Lets the tests of reports write traces as those of the viewer do."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "trace"))  # for trace_batches, also where only this folder is run
