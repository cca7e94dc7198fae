# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Reads a run from whatever verl logged of it: the file logger, tensorboard, or the console."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from epgrpo_verl.view.metrics import Metrics, load_metrics, metrics_files

CONSOLE_PATTERNS = ("*.log", "*.txt", "*.out")
EVENTS = "*tfevents*"
_STEP_LINE = re.compile(r"\bstep:(\d+) - (\S+:.*)")
_NUMBER = re.compile(r"(?:[\w.]+\()?([-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf|nan))\b")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Log:
    """What was read of one run.

    Attributes:
        path: The file or folder that was given.
        kind: Which of verl's loggers wrote it: "file", "tensorboard" or "console".
        metrics: Its values.
    """

    path: Path
    kind: str
    metrics: Metrics


def load_run(path: str | Path) -> Log:
    """Reads a run from a file or a folder.

    Of a folder, the first of these is read that is there: the file logger's ``metrics*.jsonl`` or another ``.jsonl``
    of its form, tensorboard's event files (also in folders below), console output in a ``.log``, ``.txt`` or ``.out``.

    Raises:
        FileNotFoundError: There is no such file, or no log of verl in the folder.
        ModuleNotFoundError: It is an event file, and the package tensorboard is missing.
        ValueError: The file is no log of verl, or the folder holds several runs.
    """
    path = Path(path)
    if path.is_dir():
        return _load_folder(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is neither a file nor a folder")
    if path.match(EVENTS):
        return Log(path, "tensorboard", read_events([path]))
    if is_file_log(path):
        return Log(path, "file", load_metrics(path))
    metrics = parse_console(path.read_text(errors="replace"))
    if not metrics.steps:
        raise ValueError(
            f"{path} is no log of verl: neither lines of its file logger, nor console lines such as "
            "'step:1 - critic/score/mean:0.5 - ...', nor an event file of tensorboard"
        )
    return Log(path, "console", metrics)


def _load_folder(folder: Path) -> Log:
    if metrics_files(folder):
        return Log(folder, "file", load_metrics(folder))
    if records := [file for file in sorted(folder.glob("*.jsonl")) if is_file_log(file)]:
        return Log(folder, "file", load_metrics(_only(records, folder)))
    if events := sorted(folder.rglob(EVENTS)):
        _only(sorted({file.parent for file in events}), folder)
        return Log(folder, "tensorboard", read_events(events))
    consoles = {}
    for pattern in CONSOLE_PATTERNS:
        for file in sorted(folder.glob(pattern)):
            if (metrics := parse_console(file.read_text(errors="replace"))).steps:
                consoles[file] = metrics
    if consoles:
        return Log(folder, "console", consoles[_only(list(consoles), folder)])
    raise FileNotFoundError(
        f'no log of verl in {folder}. The run writes one with trainer.logger=\'["console","file"]\', '
        "or keep what it prints in a .log file"
    )


def _only(paths: Sequence[Path], folder: Path) -> Path:
    if len(paths) > 1:
        raise ValueError(f"{folder} holds several runs; name one: {', '.join(str(path) for path in paths)}")
    return paths[0]


def is_file_log(path: Path) -> bool:
    """Whether a file begins like one of verl's file logger."""
    with path.open(encoding="utf-8", errors="replace") as file:
        line = file.readline()
    try:
        record = json.loads(line)
    except ValueError:
        return False
    return isinstance(record, dict) and {"step", "data"} <= set(record) and isinstance(record["data"], dict)


def parse_console(text: str) -> Metrics:
    """Parses what verl's console logger printed, be it among other output, with Ray's prefixes, or coloured.

    A step that is lower than the one before means that the run was resumed: it replaces what it repeats.
    """
    steps: dict[int, dict[str, float]] = {}
    for line in text.splitlines():
        match = _STEP_LINE.search(_COLOURS.sub("", line))
        if match is None:
            continue
        step, values = int(match[1]), {}
        for item in match[2].split(" - "):
            name, colon, value = item.partition(":")
            number = _NUMBER.match(value)
            if colon and number:
                values[name] = float(number[1])
        if values:
            if steps and step < max(steps):
                steps = {number: kept for number, kept in steps.items() if number < step}
            steps.setdefault(step, {}).update(values)
    return Metrics(dict(sorted(steps.items())))


def read_events(files: Sequence[Path]) -> Metrics:
    """Reads the scalars of tensorboard's event files. Of several values at one step, the one written last counts.

    Raises:
        ModuleNotFoundError: The package tensorboard is missing.
        ValueError: The files hold no scalars.
    """
    try:
        from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"reading {files[0]} needs the package tensorboard. Run: pip install tensorboard"
        ) from error
    points = []
    for file in files:
        events = EventAccumulator(str(file), size_guidance={SCALARS: 0}).Reload()
        for name in events.Tags()[SCALARS]:
            points += [(event.wall_time, event.step, name, event.value) for event in events.Scalars(name)]
    if not points:
        raise ValueError(f"{files[0]} holds no scalars")
    steps: dict[int, dict[str, float]] = {}
    for _, step, name, value in sorted(points, key=lambda point: point[0]):
        steps.setdefault(step, {})[name] = value
    return Metrics(dict(sorted(steps.items())))
