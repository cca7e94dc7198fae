# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the metrics that verl's ``file`` logger wrote."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

REWARD = "critic/score/mean"
ZERO_VARIANCE = "ep_grpo/zero_variance_groups/share"
RECOVERED_TOKENS = "ep_grpo/zero_variance_tokens/share"
STEP_SECONDS = "timing_s/step"


class Logged(Protocol):
    """What holds the curves of a run, such as `Metrics`."""

    def series(self, name: str) -> tuple[Sequence[float], Sequence[float]]:
        """Gives the steps, or other places on the horizontal axis, and the values there; none if nothing is known."""


@dataclass(frozen=True)
class Metrics:
    """The logged values of one run.

    Attributes:
        steps: Training step to its values by metric name, in the order of the steps.
    """

    steps: dict[int, dict[str, Any]]

    def series(self, name: str) -> tuple[list[int], list[float]]:
        """Gives the steps at which a metric was logged as a finite number, and its values there."""
        points = [
            (step, float(values[name]))
            for step, values in self.steps.items()
            if isinstance(values.get(name), int | float) and math.isfinite(values[name])
        ]
        return [step for step, _ in points], [value for _, value in points]


def parse_lines(text: str, source: str = "metrics") -> dict[int, dict[str, Any]]:
    """Parses lines of ``{"step": ..., "data": {...}}``. A last line that was cut off, as by a killed run, is left out.

    Raises:
        ValueError: Another line is not of that form.
    """
    steps: dict[int, dict[str, Any]] = {}
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            step, data = int(record["step"]), dict(record["data"])
        except (ValueError, TypeError, KeyError) as error:
            if number == len(lines) and not text.endswith("\n"):
                break
            raise ValueError(f"{source}, line {number}: not a record of verl's file logger: {line[:80]!r}") from error
        # verl logs the validation of a step in a line of its own.
        steps.setdefault(step, {}).update(data)
    return steps


def metrics_files(path: Path) -> list[Path]:
    """Lists the metrics files of a run: the file itself, or ``metrics*.jsonl`` in the folder, oldest first."""
    if path.is_file():
        return [path]
    return sorted(path.glob("metrics*.jsonl"))


def load_metrics(path: str | Path) -> Metrics:
    """Loads a run's metrics.

    Args:
        path: A file that verl wrote (``trainer.logger=[...,"file"]``, ``VERL_FILE_LOGGER_PATH``), or a folder with
            several ``metrics*.jsonl``, one for each time the run was resumed. A resumed run replaces the steps that it
            repeats.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: A line is not what verl's file logger writes.
    """
    path = Path(path)
    files = metrics_files(path)
    if not files:
        raise FileNotFoundError(
            f'no metrics in {path}: was the run started with trainer.logger=\'["console","file"]\'?'
        )
    steps: dict[int, dict[str, Any]] = {}
    for file in files:
        part = parse_lines(file.read_text(), str(file))
        first = min(part, default=math.inf)
        steps = {step: values for step, values in steps.items() if step < first} | part
    return Metrics(dict(sorted(steps.items())))
