# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Draws the curves of one run, or of several on top of each other, with a band over the seeds of one name."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from epgrpo_verl.view.metrics import RECOVERED_TOKENS, REWARD, STEP_SECONDS, ZERO_VARIANCE, Logged, load_metrics
from epgrpo_verl.view.seeds import over_seeds, running_mean

__all__ = [
    "PANELS",
    "Panel",
    "Runs",
    "draw",
    "load_metrics",
    "logged_panels",
    "panel_png",
    "plot_curves",
    "running_mean",
    "style",
]


TRAINING_STEP = "training step"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
"""Okabe and Ito's colours, which can be told apart with any kind of colour vision; without their yellow."""
DASHES = ("-", "--", ":", "-.")


@dataclass(frozen=True)
class Panel:
    """One plot of the figure.

    Attributes:
        title: What is shown.
        metric: Name of the metric in verl's log.
        unit: Label of the vertical axis.
        limits: Its range; None, for the range or its upper end, lets the data choose.
        smooth: Steps of the running mean that is drawn over the values; 1 draws the values alone.
        about: What to see in it, in a sentence.
        warm_up: First steps that do not count for the range of the vertical axis, which begins at 0 then.
        x: Label of the horizontal axis.
        log_x: Whether the horizontal axis is logarithmic.
        dots: Name of single points that are drawn behind the curve of a single run.
        section: Heading of the panels that are shown together with it.
    """

    title: str
    metric: str
    unit: str = ""
    limits: tuple[float, float | None] | None = None
    smooth: int = 1
    about: str = ""
    warm_up: int = 0
    x: str = TRAINING_STEP
    log_x: bool = False
    dots: str = ""
    section: str = ""


PANELS: tuple[Panel, ...] = (
    Panel("Mean reward", REWARD, smooth=5, about="Mean over the responses of a step, as the reward function gave it."),
    Panel(
        "Zero-variance groups",
        ZERO_VARIANCE,
        "share of groups",
        (-0.03, 1.03),
        smooth=5,
        about="Groups in which all responses have the same reward. GRPO learns nothing from them.",
    ),
    Panel(
        "Recovered tokens",
        RECOVERED_TOKENS,
        "share of tokens",
        (-0.03, 1.03),
        smooth=5,
        about="Tokens in such groups that still have an advantage that is not 0.",
    ),
    Panel(
        "Log-ratio to the reference",
        "ep_grpo/log_ratio/std",
        "std, nats",
        about="How far the policy has moved, token by token. Still 0 after the first step: it is not updated.",
    ),
    Panel("Entropy of the policy", "actor/entropy", "nats per token", about="At 0, responses are all the same."),
    Panel(
        "Entropy gate",
        "ep_grpo/gate/mean",
        "mean",
        (-0.03, 1.03),
        about="Roughly the factor by which the gate scales GRPO's gradient.",
    ),
    Panel(
        "Time",
        STEP_SECONDS,
        "seconds per step",
        about="The first step also warms things up, and may be above the picture.",
        warm_up=1,
    ),
    Panel("Response length", "response_length/mean", "tokens", about="Mean over the responses of a step."),
)


Runs = Mapping[str, Logged | Sequence[Logged]]
"""Label to the values of a run, or of several that differ in their seed."""


def as_seeds(run: Logged | Sequence[Logged]) -> Sequence[Logged]:
    """One run as a sequence of one."""
    return run if isinstance(run, Sequence) else [run]


def logged_panels(runs: Runs, panels: Sequence[Panel] = PANELS) -> list[Panel]:
    """The panels whose metric at least one run logged."""
    every = [values for run in runs.values() for values in as_seeds(run)]
    return [panel for panel in panels if any(values.series(panel.metric)[0] for values in every)]


def style(index: int) -> dict[str, Any]:
    """Colour and dashes of the curve with this number; they repeat after 28."""
    return {
        "color": COLOURS[index % len(COLOURS)],
        "linestyle": DASHES[index // len(COLOURS) % len(DASHES)],
    }


def draw(axes: Axes, panel: Panel, runs: Runs) -> None:
    """Draws one panel: one curve per label, with a band from the lowest to the highest seed where it has several."""
    drawn, top = False, 0.0
    for index, (label, run) in enumerate(runs.items()):
        seeds = as_seeds(run)
        curve = over_seeds(seeds, panel.metric, panel.smooth)
        if not curve.steps:
            continue
        drawn = True
        top = max([top, *curve.high[panel.warm_up :]])
        look = style(index)
        if curve.seeds > 1:
            axes.fill_between(curve.steps, curve.low, curve.high, color=look["color"], alpha=0.2, linewidth=0)
        elif panel.smooth > 1:
            raw = over_seeds(seeds, panel.metric)
            axes.plot(raw.steps, raw.mean, color=look["color"], alpha=0.3, linewidth=1)
        elif panel.dots:
            for one in seeds:
                axes.plot(*one.series(panel.dots), ".", color=look["color"], alpha=0.15, markersize=3, zorder=1)
        axes.plot(curve.steps, curve.mean, label=label, marker="." if len(curve.steps) < 15 else None, **look)
    axes.set_title(panel.title, fontsize=10)
    axes.set_ylabel(panel.unit, fontsize=8)
    axes.tick_params(labelsize=8)
    if panel.log_x:
        axes.set_xscale("log")
    if panel.x == TRAINING_STEP:
        axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if panel.limits:
        axes.set_ylim(*panel.limits)
    elif panel.warm_up and top > 0:
        axes.set_ylim(0, 1.15 * top)
    if not drawn:
        axes.text(0.5, 0.5, "not logged", transform=axes.transAxes, ha="center", color="grey")


def panel_png(panel: Panel, runs: Runs) -> bytes:
    """Draws one panel alone, without title and unit, which the page gives, and returns the bytes of the PNG."""
    figure = Figure(figsize=(4.2, 2.8), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    draw(axes, panel, runs)
    axes.set_title("")
    axes.set_ylabel("")
    axes.set_xlabel(panel.x, fontsize=8)
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=160, format="png")
    return buffer.getvalue()


def _plain(label: str) -> str:
    """A label that matplotlib shows as it is: no formulas, and not hidden by a leading underscore."""
    text = label.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def _draw_section(grid: np.ndarray, panels: Sequence[Panel], runs: Runs) -> None:
    for number, (axes, panel) in enumerate(zip(grid.flat, panels, strict=False)):
        draw(axes, panel, runs)
        lowest = number + grid.shape[1] >= len(panels)
        if lowest or panel.x != TRAINING_STEP:
            axes.set_xlabel(panel.x, fontsize=8)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)


def plot_curves(runs: Runs, out: str | Path, panels: Sequence[Panel] = PANELS, title: str = "") -> Path:
    """Draws a panel per metric with one curve per label, and writes the figure.

    Args:
        runs: Label to the metrics of `load_metrics`, or to those of several seeds.
        out: The file; its ending decides the format (png, svg, pdf).
        panels: What to draw.
        title: Heading of the figure.

    Returns:
        The path of the file.
    """
    if not runs:
        raise ValueError("nothing to draw: no run was given")
    runs = {_plain(label): run for label, run in runs.items()}
    sections: dict[str, list[Panel]] = {}
    for panel in panels:
        sections.setdefault(panel.section, []).append(panel)
    columns = min(4, max(map(len, sections.values())))
    rows = [-(-len(those) // columns) for those in sections.values()]
    figure = Figure(figsize=(3.2 * columns, 2.5 * sum(rows) + 0.6), layout="constrained")
    FigureCanvasAgg(figure)
    parts = figure.subfigures(len(sections), 1, squeeze=False, height_ratios=rows)
    for part, count, (heading, those) in zip(parts.flat, rows, sections.items(), strict=True):
        if heading:
            part.suptitle(heading, fontsize=11)
        _draw_section(part.subplots(count, columns, squeeze=False), those, runs)
    if len(runs) > 1:
        lines = [Line2D([], [], label=label, **style(index)) for index, label in enumerate(runs)]
        figure.legend(handles=lines, fontsize=8, loc="outside lower center", ncols=min(4, len(runs)))
    if title:
        figure.suptitle(_plain(title), fontsize=11)
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=120)
    return out
