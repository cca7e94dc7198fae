# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The results in the documentation are those of the runs in the repository."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.learning.__main__ import RESULTS
from benchmarks.learning.report import write_report

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_tables_are_made_from_the_stored_runs(tmp_path):
    write_report(RESULTS, tmp_path)
    assert (DOCS / "results" / "learning.md").read_text() == (tmp_path / "learning.md").read_text()
    assert {file.name for file in tmp_path.iterdir()} == {file.name for file in (DOCS / "results").iterdir()}


def test_every_number_of_the_summary_is_in_the_tables():
    """Means and intervals of docs/results.md, to three digits, are those of docs/results/learning.md."""
    summary = (DOCS / "results.md").read_text().split("## Does it learn faster?")[1].split("## What to pick")[0]
    cells = [cell.strip() for line in summary.splitlines() if line.startswith("| ") for cell in line.split("|")]
    numbers = [cell for cell in cells if re.fullmatch(r"[-+]?0\.\d{3}( \[.*\])?", cell)]
    full = (DOCS / "results" / "learning.md").read_text()
    assert len(numbers) >= 18
    assert [number for number in numbers if number not in full] == []
