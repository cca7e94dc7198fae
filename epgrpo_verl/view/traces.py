# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What a report takes from the token traces of a run: curves that verl's logs do not have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from epgrpo_verl.trace.format import SUFFIX, TraceError
from epgrpo_verl.trace.reader import TraceStep, read_trace_file, trace_files
from epgrpo_verl.view.curves import Panel

SECTION = "From token traces"
"""Heading of the panels."""
PREFIX = "trace/"
"""How the names of the curves begin."""
BINS_PER_DECADE = 5
"""Bins of the gate's curve: the entropy of a trained policy's tokens spans several powers of ten."""
LOWEST_ENTROPY = 1e-4
"""In nats. Tokens with less are drawn here."""
STAGES = 10
"""Parts of the progress coordinate; one number for all runs, whatever their num_buckets."""
FEWEST = 5
"""Tokens that a bin or a stage needs to be drawn."""
DOTS = 1500
"""Single tokens that are drawn, at most."""
_COLUMNS = ("entropy", "gate", "progress_coordinate", "log_ratio", "outcome", "progress", "advantage")
_LATE = "In the last third of the traced steps."

_PANELS: tuple[Panel, ...] = (
    Panel(
        "Gate against entropy",
        PREFIX + "gate",
        "mean gate",
        (-0.03, 1.03),
        about=f"The gate of tokens with this entropy; dots are single tokens of a single trace. {_LATE}",
        x="entropy, nats",
        log_x=True,
        dots=PREFIX + "gate_of_token",
    ),
    Panel(
        "Progress part",
        PREFIX + "progress_share",
        "share of |advantage|",
        (-0.03, 1.03),
        about="Of the sizes of both parts, in groups whose rewards differ; the rest is the outcome part.",
    ),
    Panel(
        "Sign flips",
        PREFIX + "sign_flips",
        "share of tokens",
        (0, None),
        about="Tokens whose advantage has the opposite sign of the one that plain GRPO gives them.",
    ),
    Panel(
        "Log-ratio by stage",
        PREFIX + "log_ratio_by_stage",
        "mean |log-ratio|, nats",
        (0, None),
        about=f"Where in a response the policy has moved from the reference. {_LATE}",
        x="progress coordinate",
    ),
    Panel(
        "Recovered in zero-variance groups",
        PREFIX + "recovered_tokens",
        "share of their tokens",
        (-0.03, 1.03),
        about="Tokens of groups with equal rewards whose advantage is not 0. Plain GRPO: none.",
    ),
    Panel(
        "Weight of zero-variance groups",
        PREFIX + "zero_variance_weight",
        "share of |advantage|",
        (-0.03, 1.03),
        about="Of the sizes of all advantages, what is in groups with equal rewards. Plain GRPO: nothing.",
    ),
)
TRACE_PANELS = tuple(replace(panel, section=SECTION) for panel in _PANELS)


@dataclass(frozen=True)
class TraceLog:
    """What was read of one trace.

    Attributes:
        path: The folder, or the one file.
        curves: Points, x and y, by name; a curve that no token gives is left out.
        steps: Steps that could be read.
        groups: Groups in them.
        tokens: Valid tokens in them.
        damaged: What is wrong with the files that were left out, one line for each.
    """

    path: Path
    curves: Mapping[str, tuple[list[float], list[float]]]
    steps: tuple[int, ...]
    groups: int
    tokens: int
    damaged: tuple[str, ...]

    def series(self, name: str) -> tuple[list[float], list[float]]:
        """Points of a curve; none if the trace does not give it."""
        return self.curves.get(name, ([], []))


def trace_folder(run: Path) -> Path | None:
    """Finds the trace of a run: the folder itself, a folder in it, or one trace file.

    Raises:
        ValueError: Several folders in it hold traces.
    """
    if not run.is_dir():
        return run if run.is_file() and run.name.endswith(SUFFIX) else None
    if any(run.glob(f"step_*{SUFFIX}")):
        return run
    below = sorted({file.parent for file in run.glob(f"*/step_*{SUFFIX}")})
    if len(below) > 1:
        raise ValueError(
            f"{run} holds several traces: {', '.join(map(str, below))}. "
            "Give the run's log file and one of them, both as NAME=PATH with the same name"
        )
    return below[0] if below else None


def load_trace(path: Path) -> TraceLog:
    """Reads a trace. A file that is damaged is left out, and said in the result.

    Raises:
        TraceError: There is no trace.
    """
    files: dict[int, list[TraceStep]] = {}
    damaged = []
    for file in trace_files(path):
        try:
            read = read_trace_file(file)
        except TraceError as error:
            damaged.append(str(error))
            continue
        if read.groups:
            files.setdefault(read.step, []).append(read)
    tables = {step: _table(sorted(files[step], key=lambda part: part.header["part"])) for step in sorted(files)}
    late = list(tables.values())[-max(1, round(len(tables) / 3)) :]
    curves = {
        **_over_steps({step: _values(table) for step, table in tables.items()}),
        **(_profiles({name: np.concatenate([table[name] for table in late]) for name in late[0]}) if late else {}),
    }
    return TraceLog(
        path=path,
        curves={name: points for name, points in curves.items() if points[0]},
        steps=tuple(tables),
        groups=sum(len(file.groups) for parts in files.values() for file in parts),
        tokens=sum(len(table["gate"]) for table in tables.values()),
        damaged=tuple(damaged),
    )


def _table(files: Sequence[TraceStep]) -> dict[str, np.ndarray]:
    """Valid tokens of a step, (tokens,) each, float64; a quantity that was not computed is NaN."""
    columns: dict[str, list[np.ndarray]] = {name: [] for name in (*_COLUMNS, "grpo", "zero_variance")}
    for group in (group for file in files for group in file.groups):
        for response in group["responses"]:
            valid = np.array(response["mask"], dtype=bool)
            for name in _COLUMNS:
                values = response[name]
                row = np.full(len(valid), np.nan) if values is None else np.array(values, dtype=float)
                columns[name].append(row[valid])
            columns["grpo"].append(np.full(valid.sum(), float(response["grpo_advantage"])))
            columns["zero_variance"].append(np.full(valid.sum(), float(group["zero_variance"])))
    return {name: np.concatenate([np.empty(0), *rows]) for name, rows in columns.items()}


def _values(table: Mapping[str, np.ndarray]) -> dict[str, float]:
    """What one step adds to the curves over the steps; NaN where it has no such token."""
    equal = table["zero_variance"] == 1
    size = {name: np.abs(table[name]) for name in ("outcome", "progress", "advantage")}
    progress, outcome = size["progress"][~equal].sum(), size["outcome"][~equal].sum()
    judged = table["grpo"] != 0
    flipped = (table["advantage"] * table["grpo"] < 0)[judged]
    return {
        PREFIX + "progress_share": _ratio(progress, progress + outcome),
        PREFIX + "sign_flips": _ratio(flipped.sum(), judged.sum()),
        PREFIX + "recovered_tokens": _ratio((size["advantage"][equal] > 0).sum(), equal.sum()),
        PREFIX + "zero_variance_weight": _ratio(size["advantage"][equal].sum(), size["advantage"].sum()),
    }


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else float("nan")


def _over_steps(values: Mapping[int, Mapping[str, float]]) -> dict[str, tuple[list[float], list[float]]]:
    names = next(iter(values.values()), {})
    points = {name: [(step, row[name]) for step, row in values.items() if np.isfinite(row[name])] for name in names}
    return {name: ([step for step, _ in pairs], [value for _, value in pairs]) for name, pairs in points.items()}


def _profiles(table: Mapping[str, np.ndarray]) -> dict[str, tuple[list[float], list[float]]]:
    """The curves that are not over the steps."""
    known = np.isfinite(table["entropy"] + table["gate"])
    entropy, gate = np.maximum(table["entropy"][known], LOWEST_ENTROPY), table["gate"][known]
    some = slice(None, None, max(1, -(-len(gate) // DOTS)))
    placed = np.isfinite(table["log_ratio"] + table["progress_coordinate"])
    # A token with the coordinate 1, the last of its row, belongs to the last stage.
    stage = np.minimum(np.floor(table["progress_coordinate"][placed] * STAGES), STAGES - 1)
    decade, mean_gate = _means(np.floor(np.log10(entropy) * BINS_PER_DECADE), gate, 1 / BINS_PER_DECADE)
    return {
        PREFIX + "gate": ([10**exponent for exponent in decade], mean_gate),
        PREFIX + "gate_of_token": (entropy[some].tolist(), gate[some].tolist()),
        PREFIX + "log_ratio_by_stage": _means(stage, np.abs(table["log_ratio"][placed]), 1 / STAGES),
    }


def _means(bins: np.ndarray, values: np.ndarray, width: float) -> tuple[list[float], list[float]]:
    """Mean of the values in each bin that has enough of them, over the middle of the bin."""
    numbers, place, count = np.unique(bins, return_inverse=True, return_counts=True)
    means = np.bincount(place, weights=values, minlength=len(numbers)) / np.maximum(count, 1)
    enough = count >= FEWEST
    # Rounded, so that the same bin of two traces is the same number.
    return np.round((numbers[enough] + 0.5) * width, 9).tolist(), means[enough].tolist()
