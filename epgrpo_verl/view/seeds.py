# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs of the same name that differ in their seed, as one curve with an interval."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Protocol, TypeVar

from epgrpo_verl.view.metrics import Logged

_SEED = re.compile(r"[-_. ]*seed[-_=]?\d+", re.IGNORECASE)
INTERVAL = "mean over the seeds, with a band from the lowest seed to the highest"
"""What a curve of several seeds shows."""


@dataclass(frozen=True)
class Curve:
    """A metric over the seeds of one name, at the steps that all of them logged.

    Attributes:
        steps: Training steps, or other places on the horizontal axis.
        mean: Mean over the seeds at each step.
        low: Lowest seed at each step.
        high: Highest seed at each step.
        seeds: Number of seeds that logged the metric.
    """

    steps: list[float]
    mean: list[float]
    low: list[float]
    high: list[float]
    seeds: int


def running_mean(values: Sequence[float], window: int) -> list[float]:
    """Averages each value with up to ``window - 1`` values before it."""
    return [sum(part) / len(part) for end in range(1, len(values) + 1) if (part := values[max(0, end - window) : end])]


def over_seeds(runs: Sequence[Logged], metric: str, window: int = 1) -> Curve:
    """Computes the curve of a metric.

    Args:
        runs: One per seed.
        metric: Name in verl's log.
        window: Steps of the running mean that is taken of each seed before they are joined.
    """
    logged = []
    for run in runs:
        steps, values = run.series(metric)
        if steps:
            logged.append(dict(zip(steps, running_mean(values, window), strict=True)))
    shared = sorted(set.intersection(*(set(values) for values in logged))) if logged else []
    columns = [[values[step] for values in logged] for step in shared]
    return Curve(
        steps=shared,
        mean=[mean(column) for column in columns],
        low=[min(column) for column in columns],
        high=[max(column) for column in columns],
        seeds=len(logged),
    )


def name_of(path: Path) -> str:
    """The name of a run by its path, without its seed: ``runs/3b_grpo_seed2`` is a run of ``3b_grpo``.

    A folder in the middle of the path that names the seed counts too, as in ``3b_grpo/seed2/metrics.jsonl``.
    """
    resolved = path.resolve()
    own = resolved.stem if resolved.is_file() else resolved.name
    name = _SEED.sub("", own)
    generic = {"", "metrics", "train", "log", "logs", "console", "run", "trace", "traces"}
    if name in generic or re.fullmatch(r"metrics-\d+|step_\d+(-\d+)?\.jsonl", name):
        return name_of(resolved.parent) if resolved.parent != resolved else own
    return name


class Source(Protocol):
    """Anything that was read of a run, such as its log or its trace."""

    path: Path


Kind = TypeVar("Kind", bound=Source)


def group(runs: Sequence[tuple[str | None, Kind]]) -> Mapping[str, list[Kind]]:
    """Groups what was read by the names of the runs, in the order in which the names come up.

    Args:
        runs: The name that was given, or None, and what was read.
    """
    groups: dict[str, list[Kind]] = {}
    for name, source in runs:
        groups.setdefault(name if name is not None else name_of(source.path), []).append(source)
    return groups
