# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""docs/reproduce.md says what recipes and data sources there are."""

from __future__ import annotations

import re

from memory_plan import memory_plan, model_shape
from recipe_configs import NAMES, RECIPES, composed

from epgrpo_verl.data import BENCHMARKS, SOURCES

TEXT = (RECIPES.parent / "docs" / "reproduce.md").read_text()


def test_every_recipe_is_in_the_table_once():
    assert sorted(re.findall(r"^\| [^|]+ \| `run_([\w.]+)\.sh` \|", TEXT, re.MULTILINE)) == sorted(NAMES)


def test_the_table_of_data_agrees_with_the_sources():
    rows = re.findall(
        r"^\| (MATH500|AMC23|Minerva|AIME24|AIME25) \((\d+)[^|]*\| ([^|]*) \| ([^|]*) \|", TEXT, re.MULTILINE
    )
    assert len(rows) == len(BENCHMARKS)
    for name, number, pinned, checked in rows:
        source = SOURCES[name.lower()]
        assert int(number) == source.rows
        assert ("sha256" in pinned) == (source.sha256 is not None)
        assert ("all answers" in checked) == (source.golds_sha256 is not None)


def test_the_peaks_are_those_of_the_plan():
    peaks = []
    for name in ("qwen2.5_3b_epgrpo", "qwen2.5_7b_epgrpo", "qwen2.5_7b_epgrpo_megatron"):
        config = composed(name)
        shape = model_shape(config.actor_rollout_ref.model.path)
        peaks.append(round(memory_plan(config, shape, 80.0, reference=True).peak))
    assert "about 57 GB (3B on one), 52 GB (7B on four, with FSDP or Megatron)" in TEXT
    assert peaks == [57, 52, 52]
