# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The series applies to the pinned release of verl and passes there; a line of context that differs is a failure."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "check_patches.sh"


def check(*args: str) -> subprocess.CompletedProcess:
    env = {**os.environ, "PYTHON": sys.executable}
    return subprocess.run(["bash", str(SCRIPT), *args], env=env, capture_output=True, text=True)


@pytest.mark.slow
def test_series_applies_to_the_release_and_passes_there():
    result = check()
    assert result.returncode == 0, result.stdout[-5000:] + result.stderr[-5000:]


def test_a_changed_line_of_context_is_a_failure(tmp_path):
    installed = Path(importlib.metadata.distribution("verl").locate_file("verl"))
    clone = tmp_path / "clone"
    shutil.copytree(installed, clone / "verl", ignore=shutil.ignore_patterns("__pycache__"))
    changed = clone / "verl" / "trainer" / "ppo" / "ray_trainer.py"
    text = changed.read_text()
    assert text.count("# GDPO: pass raw data") == 1
    changed.write_text(text.replace("# GDPO: pass raw data", "# GDPO: pass the data"))
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
    for command in (["init", "-q"], ["add", "-A", "-f"], [*identity, "commit", "-q", "-m", "changed"]):
        subprocess.run(["git", "-C", str(clone), *command], check=True)
    result = check(str(clone))
    assert result.returncode != 0
    assert "Patch failed at 0001" in result.stdout + result.stderr
