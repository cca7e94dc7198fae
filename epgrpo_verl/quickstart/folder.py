# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The folder with a recipe's model and data: whole, begun, or somebody else's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from epgrpo_verl.quickstart.lock import LOCK_FILE, lock_folder

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


@contextmanager
def making(out: Path) -> Iterator[None]:
    """Makes the folder, and holds it for the caller; waits as long as another process does.

    Raises:
        ForeignFolderError: There are files in it that no recipe made.
    """
    if out.is_dir() and {path.name for path in out.iterdir()} - {LOCK_FILE} and not (out / SETTINGS_FILE).is_file():
        raise ForeignFolderError(f"{out} has files in it that this recipe did not make: set DATA_DIR to another folder")
    out.mkdir(parents=True, exist_ok=True)
    with lock_folder(out, wait=True):
        yield


def begin(out: Path) -> None:
    """Marks what is in the folder as not whole."""
    (out / SETTINGS_FILE).write_text("{}\n")


def finish(out: Path, settings: dict[str, Any]) -> None:
    """Writes the settings, last: they say that the rest is whole."""
    (out / SETTINGS_FILE).write_text(json.dumps(settings, indent=2) + "\n")
