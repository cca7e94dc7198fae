# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures: the quickstart's model, hardly warmed up, and a diagnosis of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from diagnose_assets import GRADER, MAX_TOKENS, STEPS, diagnose
from typer.testing import Result

from epgrpo_verl.quickstart.model import WarmUp
from epgrpo_verl.quickstart.prepare import prepare
from epgrpo_verl.quickstart.task import Difficulty


@pytest.fixture(scope="session")
def data(tmp_path_factory) -> Path:
    """Model and problems: sums of two digits, of which the model gets some right."""
    out = tmp_path_factory.mktemp("quickstart")
    warm = WarmUp(steps=90, sloppy_steps=10, batch_size=16)
    prepare(out, Difficulty(num_terms=2, max_term=2, mistake_rate=0.3), warm, num_train=1, num_test=5)
    return out


@pytest.fixture(scope="session")
def run(data) -> Callable[..., Result]:
    """Diagnoses the model; further arguments come last."""

    def call(out: Path, *arguments: object, n: int = 4) -> Result:
        return diagnose(
            *("--model", data / "model", "--data", data / "test.parquet", "--out", out, "-n", n),
            *("--max-tokens", MAX_TOKENS, "--grader", GRADER, "--resamples", 200, *arguments),
        )

    return call


@pytest.fixture(scope="session")
def finished(run, tmp_path_factory) -> Path:
    """A diagnosis with everything. Not to be changed."""
    out = tmp_path_factory.mktemp("diagnosis") / "finished"
    result = run(out, "--steps", STEPS)
    assert result.exit_code == 0, result.output
    return out
