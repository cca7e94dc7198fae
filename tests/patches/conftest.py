# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The batches and the slow reference of the algorithm's tests."""

import importlib.util
import sys
from pathlib import Path

ALGORITHM_TESTS = Path(__file__).parents[1] / "algorithm"
sys.path.insert(0, str(ALGORITHM_TESTS))

_spec = importlib.util.spec_from_file_location("algorithm_conftest", ALGORITHM_TESTS / "conftest.py")
_conftest = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = _conftest
_spec.loader.exec_module(_conftest)
make_batch = _conftest.make_batch
