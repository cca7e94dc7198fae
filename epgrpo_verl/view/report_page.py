# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Puts a report together: the numbers of each name, the panels that were logged, the PNG and the HTML page.

Names and paths are text from outside: the page escapes them, runs no script, and loads nothing.
"""

from __future__ import annotations

import base64
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from statistics import mean

from jinja2 import Environment, StrictUndefined
from matplotlib.colors import to_hex
from rich.markup import escape
from rich.table import Table

from epgrpo_verl import __version__
from epgrpo_verl.quickstart.summary import Summary, summarize
from epgrpo_verl.view.curves import PANELS, Panel, logged_panels, panel_png, plot_curves, style
from epgrpo_verl.view.logs import Log
from epgrpo_verl.view.metrics import Metrics
from epgrpo_verl.view.seeds import INTERVAL, group

VALIDATION = "val-core/"
_DASHES = {"-": "none", "--": "7 3", ":": "2 3", "-.": "7 3 2 3"}


@dataclass(frozen=True)
class Report:
    """What is shown.

    Attributes:
        title: Heading.
        groups: Name to its runs, one per seed.
        panels: Panels that at least one run logged.
        left_out: Panels that none did.
    """

    title: str
    groups: Mapping[str, list[Log]]
    panels: list[Panel]
    left_out: list[Panel]

    @property
    def runs(self) -> dict[str, list[Metrics]]:
        """Name to the metrics of its seeds."""
        return {name: [log.metrics for log in logs] for name, logs in self.groups.items()}

    def missing(self, panel: Panel) -> list[str]:
        """Names of which no seed logged the panel's metric."""
        return [name for name, seeds in self.runs.items() if not logged_panels({name: seeds}, [panel])]


@dataclass(frozen=True)
class Cell:
    """A number of the table: its mean over the seeds, and where there are several, the lowest and the highest.

    Of two numbers, from the first to the last steps, the range is that of the second.
    """

    text: str
    range: str = ""


def make_report(runs: Sequence[tuple[str | None, Log]], title: str = "", smooth: int = 5) -> Report:
    """Sorts runs into names, and picks the panels.

    Args:
        runs: The name that was given for a run, or None, and the run.
        title: Heading; the names if empty.
        smooth: Steps of the running mean where a panel has one.

    Raises:
        ValueError: A run logged no reward.
    """
    groups = group(runs)
    for logs in groups.values():
        for log in logs:
            _summary(log)
    metrics = {name: [log.metrics for log in logs] for name, logs in groups.items()}
    panels = [replace(panel, smooth=smooth if panel.smooth > 1 else 1) for panel in PANELS]
    logged = logged_panels(metrics, panels)
    return Report(
        title=title or ", ".join(groups),
        groups=groups,
        panels=[*logged, *_validation_panels(metrics)],
        left_out=[panel for panel in panels if panel not in logged],
    )


def _validation_panels(runs: Mapping[str, Sequence[Metrics]]) -> list[Panel]:
    names = {name for seeds in runs.values() for run in seeds for values in run.steps.values() for name in values}
    panels = [
        Panel(name.removeprefix(VALIDATION), name, about="Validation.")
        for name in sorted(names)
        if name.startswith(VALIDATION)
    ]
    return logged_panels(runs, panels)


def _summary(log: Log) -> Summary:
    try:
        return summarize(log.metrics)
    except ValueError as error:
        raise ValueError(f"{log.path}: {error}") from error


HEADINGS = ("run", "seeds", "steps", "mean reward", "zero-variance groups", "recovered tokens", "s per step")


def cells(logs: Sequence[Log]) -> list[Cell]:
    """The row of a name, after the name itself."""
    summaries = [_summary(log) for log in logs]

    def over(form: str, *picks: Callable[[Summary], float | None]) -> Cell:
        columns = [[value for value in map(pick, summaries) if value is not None] for pick in picks]
        last = columns[-1]
        if not last:
            return Cell("not logged")
        spread = f"{min(last):{form}} to {max(last):{form}}" if len(last) > 1 else ""
        return Cell(" → ".join(f"{mean(values):{form}}" for values in columns), spread)

    steps = sorted({summary.steps for summary in summaries})
    return [
        Cell(str(len(logs))),
        Cell(str(steps[0]) if len(steps) == 1 else f"{steps[0]} to {steps[-1]}"),
        over(".3f", lambda summary: summary.reward_first, lambda summary: summary.reward_last),
        over(".0%", lambda summary: summary.zero_variance_first, lambda summary: summary.zero_variance_last),
        over(".0%", lambda summary: summary.recovered_tokens),
        over(".2f", lambda summary: summary.seconds_per_step),
    ]


def as_table(report: Report) -> Table:
    """The same numbers for a terminal."""
    table = Table(title=escape(report.title), title_justify="left")
    for number, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="right" if number else "left", overflow="fold")
    for name, logs in report.groups.items():
        row = [f"{cell.text} ({cell.range})" if cell.range else cell.text for cell in cells(logs)]
        table.add_row(escape(name), *row)
    return table


def remarks(report: Report) -> list[str]:
    """What a reader has to know about the curves."""
    lines = [_note(report)]
    if report.left_out:
        lines.append(f"left out, because no run logged it: {_titles(report.left_out)}")
    for panel in report.panels:
        if names := report.missing(panel):
            lines.append(f"{panel.title}: not logged by {', '.join(names)}")
    return lines


def _note(report: Report) -> str:
    smooth = max((panel.smooth for panel in report.panels), default=1)
    note = f"a → b: from the first to the last {_window(report)}. Seconds per step: the median."
    if smooth > 1:
        note += f" Reward and shares are drawn as running means of {smooth} steps, a single run's values behind them."
    if any(len(logs) > 1 for logs in report.groups.values()):
        note += f" Several seeds: {INTERVAL}, at the steps that all of them logged."
    return note


def _window(report: Report) -> str:
    windows = sorted({_summary(log).window for logs in report.groups.values() for log in logs})
    if windows == [1]:
        return "step"
    return f"{windows[0]} steps" if len(windows) == 1 else f"{windows[0]} to {windows[-1]} steps"


def _titles(panels: Sequence[Panel]) -> str:
    return ", ".join(f"{panel.title} ({panel.metric})" for panel in panels)


def html(report: Report) -> str:
    """Makes the page. It holds everything it needs."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((files(__package__) / "static" / "report.html").read_text(encoding="utf-8"))
    looks = {name: style(number) for number, name in enumerate(report.groups)}
    logs = [log for group_logs in report.groups.values() for log in group_logs]
    return template.render(
        title=report.title,
        reading=f"{len(logs)} {'run' if len(logs) == 1 else 'runs'}, from verl's own logs.",
        headings=HEADINGS,
        rows=[
            {
                "name": name,
                "colour": to_hex(looks[name]["color"]),
                "dashes": _DASHES[looks[name]["linestyle"]],
                "cells": cells(report.groups[name]),
            }
            for name in report.groups
        ],
        note=_note(report),
        panels=[
            {
                "title": panel.title,
                "unit": panel.unit,
                "about": panel.about,
                "metric": panel.metric,
                "image": base64.b64encode(panel_png(panel, report.runs)).decode(),
                "alt": f"{panel.title} over the training steps",
                "missing": ", ".join(report.missing(panel)),
            }
            for panel in report.panels
        ],
        left_out=_titles(report.left_out),
        sources=[{"path": str(log.path), "kind": log.kind, "steps": len(log.metrics.steps)} for log in logs],
        version=__version__,
    )


def write_report(report: Report, folder: Path, png: str, page: str) -> list[Path]:
    """Writes the picture and the page, each whole or not at all.

    Returns:
        Their paths.
    """
    folder.mkdir(parents=True, exist_ok=True)
    counts = {name: len(logs) for name, logs in report.groups.items()}
    labels = {
        f"{name} ({counts[name]} seeds)" if counts[name] > 1 else name: seeds for name, seeds in report.runs.items()
    }
    with tempfile.TemporaryDirectory(dir=folder, prefix=".report-") as unfinished:
        plot_curves(labels, Path(unfinished) / png, report.panels, report.title)
        (Path(unfinished) / page).write_text(html(report), encoding="utf-8")
        for name in (png, page):
            os.replace(Path(unfinished) / name, folder / name)
    return [folder / png, folder / page]
