# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""docs/doctor.md says what the doctor does."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from doctor_configs import doctor

from epgrpo_verl.doctor.report import lines_to_mend

TEXT = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text()


def test_the_example_fails_as_the_document_says_and_its_lines_mend_it():
    command, printed = re.findall(r"```(?:bash|text)\n(.*?)```", TEXT, re.DOTALL)
    overrides = shlex.split(command.replace("\\\n", " "))[2:]
    report = doctor(*overrides)
    lines = lines_to_mend(report.failures)
    assert printed.splitlines() == ["To mend what failed:", *(f"  {line}" for line in lines)]
    assert not doctor(*overrides, *lines).failures


def test_every_check_is_in_the_table():
    rows = {name for row in re.findall(r"^\| ([^|`]+) \|", TEXT, re.MULTILINE) for name in row.split(", ")}
    names = {check.name for check in doctor("algorithm.adv_estimator=ep_grpo").checks}
    assert names <= rows
