# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What is shown of a training that runs, and of one that failed."""

from __future__ import annotations

import pytest

from epgrpo_verl.quickstart.training import remaining


@pytest.mark.parametrize(
    ("seconds", "left", "shown"),
    [
        ([60.0], 3, "3:00 left"),  # nothing better is known
        ([60.0, 4.0], 30, "2:00 left"),
        ([60.0, 4.0, 6.0], 12, "1:00 left"),
        ([60.0, *[100.0] * 5, *[2.0] * 10], 3, "0:06 left"),  # the ten latest count
        ([60.0, 4.0], 0, "0:00 left"),
    ],
)
def test_the_time_left_is_reckoned_without_the_first_step(seconds, left, shown):
    assert remaining(seconds, left) == shown
