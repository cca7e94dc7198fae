# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Draws the curves of one run, or of several on top of each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from epgrpo_verl.view.metrics import RECOVERED_TOKENS, REWARD, STEP_SECONDS, ZERO_VARIANCE, Metrics, load_metrics

__all__ = ["PANELS", "Panel", "load_metrics", "plot_curves"]


@dataclass(frozen=True)
class Panel:
    """One plot of the figure.

    Attributes:
        title: What is shown.
        metric: Name of the metric in verl's log.
        unit: Label of the vertical axis.
        limits: Its range; chosen from the data if None.
        smooth: Steps of the running mean that is drawn over the values; 1 draws the values alone.
    """

    title: str
    metric: str
    unit: str = ""
    limits: tuple[float, float] | None = None
    smooth: int = 1


PANELS: tuple[Panel, ...] = (
    Panel("Mean reward", REWARD, smooth=5),
    Panel("Zero-variance groups", ZERO_VARIANCE, "share of groups", (-0.03, 1.03), smooth=5),
    Panel("Recovered tokens", RECOVERED_TOKENS, "share of tokens", (-0.03, 1.03), smooth=5),
    Panel("Log-ratio to the reference", "ep_grpo/log_ratio/std", "std, nats"),
    Panel("Entropy of the policy", "actor/entropy", "nats per token"),
    Panel("Entropy gate", "ep_grpo/gate/mean", "mean", (-0.03, 1.03)),
    Panel("Time", STEP_SECONDS, "seconds per step"),
    Panel("Response length", "response_length/mean", "tokens"),
)


def running_mean(values: Sequence[float], window: int) -> list[float]:
    """Averages each value with up to ``window - 1`` values before it."""
    return [sum(part) / len(part) for end in range(1, len(values) + 1) if (part := values[max(0, end - window) : end])]


def _draw(axes: Axes, panel: Panel, runs: Mapping[str, Metrics]) -> None:
    drawn = False
    for index, (label, metrics) in enumerate(runs.items()):
        steps, values = metrics.series(panel.metric)
        if not steps:
            continue
        drawn = True
        colour = f"C{index}"
        if panel.smooth > 1:
            axes.plot(steps, values, color=colour, alpha=0.3, linewidth=1)
            values = running_mean(values, panel.smooth)
        axes.plot(steps, values, color=colour, label=label, marker="." if len(steps) < 3 else None)
    axes.set_title(panel.title, fontsize=10)
    axes.set_ylabel(panel.unit, fontsize=8)
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.3)
    if panel.limits:
        axes.set_ylim(*panel.limits)
    if not drawn:
        axes.text(0.5, 0.5, "not logged", transform=axes.transAxes, ha="center", color="grey")


def plot_curves(
    runs: Mapping[str, Metrics], out: str | Path, panels: Sequence[Panel] = PANELS, title: str = ""
) -> Path:
    """Draws a panel per metric with one line per run, and writes the figure.

    Args:
        runs: Label to the metrics of :func:`load_metrics`.
        out: The file; its ending decides the format (png, svg, pdf).
        panels: What to draw.
        title: Heading of the figure.

    Returns:
        The path of the file.
    """
    if not runs:
        raise ValueError("nothing to draw: no run was given")
    columns = min(4, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(3.2 * columns, 2.5 * rows + 0.4), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, panel in zip(grid.flat, panels, strict=False):
        _draw(axes, panel, runs)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes in grid[-1]:
        axes.set_xlabel("training step", fontsize=8)
    if len(runs) > 1:
        grid[0][0].legend(fontsize=8)
    if title:
        figure.suptitle(title, fontsize=11)
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=120)
    return out
