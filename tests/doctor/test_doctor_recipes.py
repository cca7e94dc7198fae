# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The recipes pass the doctor, with nothing to say but that the baselines are baselines."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from doctor_configs import doctor

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("run_qwen*.sh"))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_passes(recipe: Path, vllm_source: Path):
    environment = {"PATH": os.environ["PATH"], "HOME": str(vllm_source), "PRINT_OVERRIDES": "1"}
    done = subprocess.run(["bash", str(recipe)], env=environment, capture_output=True, text=True, check=True)
    report = doctor(*done.stdout.splitlines())
    assert not report.failures, report.failures
    assert [check.name for check in report.warnings] == (["estimator"] if "_grpo" in recipe.stem else [])


def test_there_are_recipes():
    assert len(RECIPES) >= 10
