# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The documents say what the code does."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from epgrpo_verl import EPGRPOConfig
from epgrpo_verl.algorithm import METRICS
from epgrpo_verl.plugin.settings import PluginSettings
from epgrpo_verl.trace.format import QUANTITIES, VERSION

ROOT = Path(__file__).resolve().parent.parent


def documented_metrics() -> set[str]:
    """Metric names in the tables of docs/metrics.md; ```a/mean`, `/min``` stands for ``a/mean`` and ``a/min``."""
    names = set()
    for row in re.findall(r"^\| (`ep_grpo/[^|]*) \|", (ROOT / "docs/metrics.md").read_text(), re.MULTILINE):
        first, *others = re.findall(r"`([^`]*)`", row)
        names |= {first, *(first.rsplit("/", 1)[0] + other for other in others)}
    return names


def test_every_metric_is_documented_and_every_documented_one_exists():
    assert documented_metrics() == set(METRICS)


def test_the_readme_gives_every_knob_with_its_default():
    readme = (ROOT / "README.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", readme, re.MULTILINE))
    defaults = {field.name: field.default for field in dataclasses.fields(EPGRPOConfig)}
    assert rows == {name: _as_yaml(value) for name, value in defaults.items()}


def test_the_trace_document_gives_every_setting_with_its_default_and_every_key():
    text = (ROOT / "docs/trace.md").read_text()
    rows = dict(re.findall(r"^\| `(trace_\w+)` \| `([^`]*)` \|", text, re.MULTILINE))
    defaults = {field.name: field.default for field in dataclasses.fields(PluginSettings)}
    assert rows == {name: _as_yaml(value) for name, value in defaults.items() if name.startswith("trace_")}
    assert all(f"`{name}`" in text for name in QUANTITIES) and f"The format, version {VERSION}" in text


def _as_yaml(value: object) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
