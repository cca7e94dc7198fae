# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Reads traces, and says what is wrong with a file that is none."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .format import QUANTITIES, SCHEMA, SUFFIX, VERSION, TraceError


@dataclass(frozen=True)
class TraceStep:
    """One trace file.

    Attributes:
        path: The file.
        header: Its first record.
        groups: The others, one per group.
    """

    path: Path
    header: dict[str, Any]
    groups: list[dict[str, Any]]

    @property
    def step(self) -> int:
        """Training step."""
        return self.header["step"]


def trace_files(path: str | Path) -> list[Path]:
    """List the trace files of a folder in the order of their names, or the file itself.

    Raises:
        TraceError: There is no such file or folder, or no trace in it.
    """
    path = Path(path).expanduser()
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise TraceError(f"{path}: no such file or folder")
    files = sorted(path.glob(f"step_*{SUFFIX}"))
    if not files:
        raise TraceError(
            f"{path}: no trace in this folder (step_*{SUFFIX}). Was the run started with "
            "algorithm.adv_estimator=ep_grpo +algorithm.ep_grpo.trace_dir=<this folder>, and has it ended a step?"
        )
    return files


def read_trace(path: str | Path, steps: Collection[int] | None = None) -> list[TraceStep]:
    """Read a trace.

    Args:
        path: A folder of trace files, or one file.
        steps: The steps to read; None reads all.

    Returns:
        The files, in the order of their steps.

    Raises:
        TraceError: There is no trace, a file cannot be read, or a step is not in it.
    """
    # Files of other steps are left out by their names: two steps of a long run must not take the time of all.
    paths = {file: _step_in_name(file) for file in trace_files(path)}
    files = [read_trace_file(file) for file, step in paths.items() if None in (steps, step) or step in steps]
    there = sorted({file.step for file in files}.union(paths.values()) - {None})
    missing = sorted(set(steps or ()) - set(there))
    if missing:
        raise TraceError(
            f"{path}: no step {', '.join(map(str, missing))} in this trace; it has {', '.join(map(str, there))}"
        )
    chosen = [file for file in files if steps is None or file.step in steps]
    return sorted(chosen, key=lambda file: (file.step, file.header["part"]))


def _step_in_name(path: Path) -> int | None:
    match = re.fullmatch(rf"step_(\d+)(-\d+)?{re.escape(SUFFIX)}", path.name)
    return int(match[1]) if match else None


def read_trace_file(path: str | Path) -> TraceStep:
    """Read one trace file and check that it is whole.

    Raises:
        TraceError: It cannot be read, is no trace, or is one of a version that this package does not know.
    """
    path = Path(path)
    try:
        text = gzip.decompress(path.read_bytes()).decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise TraceError(
            f"{path}: not a trace, or a damaged one ({error}). Copy it again, or leave it out of the folder"
        ) from error
    records = []
    # Not splitlines(), which takes U+2028 for the end of a line as well.
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        try:
            record = json.loads(line)
        except ValueError as error:
            raise TraceError(f"{path}, line {number}: not JSON ({error})") from error
        if not isinstance(record, dict):
            raise TraceError(f"{path}, line {number}: not a record of a trace: {line[:60]}")
        records.append(record)
    if not records or records[0].get("schema") != SCHEMA:
        raise TraceError(f"{path}: not a trace: its first line has no schema {SCHEMA!r}")
    header, *groups = records
    if header.get("version") != VERSION:
        raise TraceError(
            f"{path}: a trace of version {header.get('version')!r}, this epgrpo_verl reads version {VERSION}. "
            f"It was written by epgrpo_verl {header.get('epgrpo_verl')}: read it with that one"
        )
    _need(header, {"step": int, "part": int, "groups_in_batch": int, "config": dict}, f"{path}, line 1")
    for number, group in enumerate(groups, start=2):
        _check_group(group, f"{path}, line {number}")
    return TraceStep(path, header, groups)


def _check_group(group: Mapping[str, Any], where: str) -> None:
    _need(group, {"group": int, "zero_variance": bool, "prompt_ids": list, "responses": list}, where)
    for number, response in enumerate(group["responses"]):
        here = f"{where}, response {number}"
        if not isinstance(response, dict):
            raise TraceError(f"{here}: not a record of a trace")
        _need(response, {"reward": (int, float), "grpo_advantage": (int, float), "ids": list, "mask": list}, here)
        for name in ("tokens", "mask", *QUANTITIES):
            if name not in response:
                raise TraceError(f"{here}: {name} is missing")
            values = response[name]
            if values is not None and (not isinstance(values, list) or len(values) != len(response["ids"])):
                raise TraceError(f"{here}: {name} is not a list of one value for each of its ids")
            if name in QUANTITIES and any(not _is_value(value) for value in values or ()):
                raise TraceError(f"{here}: {name} holds something that is no number")


def _is_value(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _need(record: Mapping[str, Any], kinds: Mapping[str, Any], where: str) -> None:
    for name, kind in kinds.items():
        if not isinstance(record.get(name), kind):
            raise TraceError(f"{where}: {name} is missing or of the wrong kind")
