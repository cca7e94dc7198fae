# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes a report as a PNG and as one HTML page.

Names and paths are text from outside: the page escapes them, runs no script, and loads nothing.
"""

from __future__ import annotations

import base64
import os
import tempfile
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from matplotlib.colors import to_hex

from epgrpo_verl import __version__
from epgrpo_verl.view.curves import TRAINING_STEP, Panel, panel_png, plot_curves, style
from epgrpo_verl.view.report_data import (
    HEADINGS,
    Report,
    absence,
    cells,
    counted,
    is_traced,
    note,
    titles,
    trace_remarks,
    trace_warnings,
)
from epgrpo_verl.view.traces import SECTION

_DASHES = {"-": "none", "--": "7 3", ":": "2 3", "-.": "7 3 2 3"}


def html(report: Report) -> str:
    """Makes the page. It holds everything it needs."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((files(__package__) / "static" / "report.html").read_text(encoding="utf-8"))
    looks = {name: style(number) for number, name in enumerate(report.groups)}
    logs = [log for group_logs in report.groups.values() for log in group_logs]
    traces = [trace for those in report.traces.values() for trace in those]
    return template.render(
        title=report.title,
        reading=_reading(len(logs), len(traces)),
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
        note=note(report),
        panels=[_figure(report, panel) for panel in report.panels if not is_traced(panel)],
        trace_heading=SECTION,
        trace_panels=[_figure(report, panel) for panel in report.panels if is_traced(panel)],
        trace_remarks=trace_remarks(report),
        trace_warnings=trace_warnings(report),
        left_out=titles(report.left_out),
        sources=[
            *({"path": str(log.path), "what": f"{log.kind} logger", "steps": len(log.metrics.steps)} for log in logs),
            *({"path": str(trace.path), "what": "token traces", "steps": len(trace.steps)} for trace in traces),
        ],
        version=__version__,
    )


def _reading(logs: int, traces: int) -> str:
    what = [f"{counted(logs, 'run')}, from verl's own logs"] if logs else []
    what += [f"{counted(traces, 'trace')} of tokens"] if traces else []
    return f"{'; '.join(what)}."


def _figure(report: Report, panel: Panel) -> dict[str, str]:
    names = report.missing(panel)
    return {
        "title": panel.title,
        "unit": panel.unit,
        "about": panel.about,
        "metric": "" if is_traced(panel) else panel.metric,
        "image": base64.b64encode(panel_png(panel, report.runs)).decode(),
        "alt": f"{panel.title} over the {f'{panel.x}s' if panel.x == TRAINING_STEP else panel.x}",
        "missing": f"{absence(panel).capitalize()} {', '.join(names)}." if names else "",
    }


def write_report(report: Report, folder: Path, png: str, page: str) -> list[Path]:
    """Writes the picture and the page, each whole or not at all.

    Returns:
        Their paths.
    """
    folder.mkdir(parents=True, exist_ok=True)
    labels = {
        f"{name} ({count} seeds)" if (count := report.seeds(name)) > 1 else name: seeds
        for name, seeds in report.runs.items()
    }
    with tempfile.TemporaryDirectory(dir=folder, prefix=".report-") as unfinished:
        plot_curves(labels, Path(unfinished) / png, report.panels, report.title)
        (Path(unfinished) / page).write_text(html(report), encoding="utf-8")
        for name in (png, page):
            os.replace(Path(unfinished) / name, folder / name)
    return [folder / png, folder / page]
