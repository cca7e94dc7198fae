# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What is shown of a training that runs, and of one that failed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from epgrpo_verl.quickstart.training import remaining, run_overrides


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


@pytest.mark.parametrize("name", ["plain", "my runs", "o'brien", "it's 'quoted'", 'a "b"', "a=b,c:(d){e}", "~$USER"])
def test_the_folder_of_a_run_reaches_hydra_as_it_is(name):
    out = Path("/tmp") / name
    parsed = OverridesParser.create().parse_overrides(run_overrides(out, 3, resume=False))
    values = {override.key_or_group: override.value() for override in parsed}
    assert values["trainer.default_local_dir"] == f"{out}/checkpoints"
    assert values["hydra.run.dir"] == f"{out}/hydra"
    assert values["trainer.total_training_steps"] == 3
