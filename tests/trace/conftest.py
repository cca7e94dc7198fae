# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""A page to look at in the viewer's tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def viewer(tmp_path_factory) -> Path:
    """The page of a trace of two steps, made by the command line."""
    from trace_batches import write_trace
    from typer.testing import CliRunner

    from epgrpo_verl.view.command import app

    folder = write_trace(tmp_path_factory.mktemp("traces") / "run", steps=[1, 10])
    done = CliRunner().invoke(app, [str(folder)])
    assert done.exit_code == 0, done.output
    return folder / "trace.html"
