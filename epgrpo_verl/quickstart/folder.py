# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The folder with a recipe's model and data: whole, begun, or somebody else's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SETTINGS_FILE = "settings.json"
"""Says what the folder was made from. Without it, the files in a folder are not the recipe's to replace."""
FILES = ("model/config.json", "model/model.safetensors", "model/tokenizer.json", "train.parquet", "test.parquet")


class ForeignFolderError(ValueError):
    """The folder holds files that no recipe made."""


def read_settings(out: Path) -> dict[str, Any]:
    """Gives the settings that a folder was made from; empty where there are none, or its making did not end.

    A file that is missing or empty counts as that, and so does a damaged settings file.
    """
    try:
        settings = json.loads((out / SETTINGS_FILE).read_text())
    except (OSError, ValueError):
        return {}
    whole = all((out / file).is_file() and (out / file).stat().st_size for file in FILES)
    return settings if whole and isinstance(settings, dict) else {}


def begin(out: Path) -> None:
    """Makes the folder, or marks what a former call left there as not whole.

    Raises:
        ForeignFolderError: There are files in it that no recipe made.
    """
    if out.is_dir() and any(out.iterdir()) and not (out / SETTINGS_FILE).is_file():
        raise ForeignFolderError(f"{out} has files in it that this recipe did not make: set DATA_DIR to another folder")
    out.mkdir(parents=True, exist_ok=True)
    (out / SETTINGS_FILE).write_text("{}\n")


def finish(out: Path, settings: dict[str, Any]) -> None:
    """Writes the settings, last: they say that the rest is whole."""
    (out / SETTINGS_FILE).write_text(json.dumps(settings, indent=2) + "\n")
