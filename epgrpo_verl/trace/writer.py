# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes trace files: one per step, whole or not at all, up to a total size."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .format import SUFFIX

MEGABYTE = 1_000_000


class TraceFull(Exception):
    """The next file would take the folder over its size; nothing was written."""


class TraceWriter:
    """Writes the traces of one run into one folder.

    A run that is resumed writes the same files for the same steps, so it replaces those that it repeats.

    Args:
        folder: Where the files go; made when the first one is written.
        every: Step 1 and the multiples of this are written.
        max_mb: Largest total size of the trace files in the folder, in 10^6 bytes.
    """

    def __init__(self, folder: str | Path, every: int, max_mb: float):
        self.folder = Path(folder).expanduser()
        self.every = every
        self.max_bytes = max_mb * MEGABYTE
        self._calls = 0
        self._parts: dict[int, int] = {}

    def due(self, step: int | None) -> int | None:
        """Say whether to write the advantage computation that is under way. Call it once for each.

        Args:
            step: The trainer's step; None counts the calls instead.

        Returns:
            The step to write, or None.
        """
        self._calls += 1
        step = self._calls if step is None else step
        return step if step == 1 or step % self.every == 0 else None

    def next_part(self, step: int) -> int:
        """Number of the next file of a step, from 1: verl may split a step into several updates."""
        return self._parts.get(step, 0) + 1

    def write(self, step: int, records: Iterable[dict[str, Any]]) -> Path:
        """Write the next file of a step.

        Args:
            step: Training step.
            records: Header and groups; written in one line each.

        Returns:
            The file.

        Raises:
            TraceFull: The file would take the folder over its size.
            OSError: The folder cannot be written, or the disk is full. No part of the file is left.
        """
        part = self.next_part(step)
        path = self.folder / f"step_{step:06d}{f'-{part}' if part > 1 else ''}{SUFFIX}"
        lines = (json.dumps(record, separators=(",", ":"), allow_nan=False) + "\n" for record in records)
        # Without a time stamp, so that the same trace has the same bytes.
        data = gzip.compress("".join(lines).encode(), compresslevel=6, mtime=0)
        self.folder.mkdir(parents=True, exist_ok=True)
        used = sum(file.stat().st_size for file in self.folder.glob(f"*{SUFFIX}") if file != path)
        if used + len(data) > self.max_bytes:
            raise TraceFull(f"{self.folder} holds {used / MEGABYTE:.3g} MB of traces, {path.name} would add more")
        unfinished = path.with_name(path.name + ".tmp")
        try:
            unfinished.write_bytes(data)
            os.replace(unfinished, path)
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise
        self._parts[step] = part
        return path
