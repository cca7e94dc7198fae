# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The results in the documentation are those of the runs in the repository."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean

import pytest

from benchmarks.learning.__main__ import RESULTS
from benchmarks.learning.report import write_report

DOCS = Path(__file__).resolve().parents[2] / "docs"
ARMS = {
    "GRPO": "grpo",
    "EP-GRPO": "ep_grpo",
    "without the gate": "ep_grpo-no_gate",
    "without progress": "ep_grpo-no_progress",
    "without the zero-variance rule": "ep_grpo-no_zero_variance",
}
"""Rows of the tables in docs/results.md."""
HEADINGS = {"easy": "The easy task", "hard": "The hard task", "smollm2": "SmolLM2-135M"}
"""Task to the heading above its table."""


def numbers(file: Path) -> dict:
    return json.loads(file.read_text(), parse_float=lambda digits: round(float(digits), 9))


def test_the_tables_are_made_from_the_stored_runs(tmp_path):
    write_report(RESULTS, tmp_path)
    assert (DOCS / "results" / "learning.md").read_text() == (tmp_path / "learning.md").read_text()
    assert numbers(DOCS / "results" / "learning.json") == numbers(tmp_path / "learning.json")
    assert {file.name for file in tmp_path.iterdir()} == {file.name for file in (DOCS / "results").iterdir()}


@pytest.mark.parametrize("task", HEADINGS)
def test_the_rows_of_the_summary_are_those_of_the_runs(task):
    part = (DOCS / "results.md").read_text().split(f"\n### {HEADINGS[task]}\n")[1].split("\n#")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert [row[0] for row in rows[2:]] == list(ARMS)
    results = json.loads((DOCS / "results" / "learning.json").read_text())
    found = {arm["arm"]: arm for arm in results[f"{task}/core"]["arms"]}
    for row in rows[2:]:
        arm = found[ARMS[row[0]]]
        expected = []
        for value, difference in (("final", "final_difference"), ("area", "area_difference")):
            expected += [f"{mean(arm[value]):.3f}", *comparison(arm[difference])]
        assert row[1:] == expected, row[0]


def comparison(difference: dict | None) -> list[str]:
    if difference is None:
        return ["", ""]
    low, high = difference["interval"]
    return [f"{difference['mean']:+.3f} [{low:+.3f}, {high:+.3f}]", f"{difference['p']:.3f}"]
