# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the doctor's tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


@pytest.fixture
def vllm_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Puts a folder named ``vllm`` first on the path: as much of vLLM's source as the doctor reads."""
    folder = tmp_path / "vllm"
    (folder / "config").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise AssertionError('the doctor must not import vLLM')\n")
    (folder / "config" / "lora.py").write_text(
        "from typing import Literal\n\n"
        "MaxLoRARanks = Literal[1, 8, 16, 32, 64]\n"
        "LoRAExtraVocabSize = Literal[256, 512]\n"
    )
    monkeypatch.delitem(sys.modules, "vllm", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return folder
