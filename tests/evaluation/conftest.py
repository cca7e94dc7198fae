# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures: a tiny model, two sets of problems, and a function that evaluates the model on them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from evaluation_assets import GRADER, MAX_TOKENS, evaluate, save_model, save_problems

sys.path.append(str(Path(__file__).parents[1] / "prepare"))  # for published, also where only this folder is run


@pytest.fixture(scope="session")
def model(tmp_path_factory) -> Path:
    return save_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def data(tmp_path_factory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("data")
    return save_problems(folder / "sums.parquet", "sums", 6), save_problems(folder / "more.parquet", "more", 4, 6)


@pytest.fixture
def run(model, data) -> Callable[..., Any]:
    """Evaluates the model on both sets into a folder; further arguments come last."""

    def call(out: Path, *arguments: Any, n: int = 4):
        return evaluate(
            *("--model", model, "--data", *data, "--out", out, "-n", n, "--backend", "hf"),
            *("--max-tokens", MAX_TOKENS, "--grader", GRADER, *arguments),
        )

    return call


@pytest.fixture(scope="session")
def finished(model, data, tmp_path_factory) -> Path:
    """A run of four samples per problem, complete. Not to be changed."""
    out = tmp_path_factory.mktemp("runs") / "finished"
    result = evaluate(
        *("--model", model, "--data", *data, "--out", out, "-n", 4, "--backend", "hf"),
        *("--max-tokens", MAX_TOKENS, "--grader", GRADER),
    )
    assert result.exit_code == 0, result.output
    return out
