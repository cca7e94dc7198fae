# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What is shown of a training that runs, and of one that failed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from epgrpo_verl.quickstart.training import last_words, remaining, run_overrides


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


CRASH = """\
(TaskRunner pid=7) Traceback (most recent call last):
(TaskRunner pid=7)   File "worker.py", line 3, in fit
(TaskRunner pid=7) ValueError: no room

"""
REFUSED = """\
Traceback (most recent call last):
  File "preflight.py", line 92, in settings
epgrpo_verl.plugin.EPGRPOPluginError: set a to b,
and c to d

[epgrpo_verl] the trainer ended with exit code 1
"""


def test_of_a_crash_the_traceback_is_shown(tmp_path):
    log = tmp_path / "train.log"
    log.write_text(CRASH)
    crash = ["Traceback (most recent call last):", '  File "worker.py", line 3, in fit', "ValueError: no room"]
    assert last_words(log) == crash
    assert last_words(log, count=1) == crash[-1:]


def test_of_a_refusal_the_message_is_shown(tmp_path):
    log = tmp_path / "train.log"
    log.write_text(CRASH + REFUSED)
    assert last_words(log) == ["set a to b,", "and c to d"]


def test_what_a_former_run_left_in_the_log_is_not_shown(tmp_path):
    log = tmp_path / "train.log"
    log.write_text(REFUSED)
    start = log.stat().st_size
    log.write_text(REFUSED + CRASH)
    assert last_words(log, start)[-1] == "ValueError: no room"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("+algorithm.ep_grpo.num_buckets=0", "algorithm.ep_grpo.num_buckets must be between 1 and 1024, got 0"),
        ("+algorithm.ep_grpo.num_bucket=3", "did you mean algorithm.ep_grpo.num_buckets?"),
        ("num_bucket=3", "Could not override 'num_bucket'."),
        ("actor_rollout_ref.actor.ppo_micro_batch_size=3", "must be divisible by ppo_micro_batch_size (3)"),
    ],
)
def test_of_a_setting_that_is_refused_only_the_message_is_shown(tmp_path, override, message):
    """verl's real entry script: it refuses before Ray starts."""
    command = [sys.executable, "-m", "epgrpo_verl.quickstart", "train", "--out", str(tmp_path), "--steps", "1"]
    done = subprocess.run(
        [*command, "algorithm.adv_estimator=ep_grpo", override], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 1
    shown = [line.removeprefix("  | ") for line in done.stdout.splitlines() if line.startswith("  | ")]
    assert message in "\n".join(shown)
    assert len(shown) <= 5
    assert not any(word in done.stdout for word in ("Traceback", "File ", "HYDRA_FULL_ERROR", "Error executing"))
    log = tmp_path / "train.log"
    assert f"The whole log: {log}" in done.stdout
    assert "HYDRA_FULL_ERROR" in log.read_text()
