# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The plot of pass@k over k, a panel per set and a line per run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from .errors import EvaluationError
from .paper import PaperRun
from .summary import SetSummary, Summary

FORMATS = (".png", ".svg", ".pdf")


def plot_pass_at_k(summaries: Sequence[Summary], out: Path, paper: Sequence[PaperRun] = ()) -> Path:
    """Draw pass@k with its interval for every set and for the average, and write the figure.

    Args:
        summaries: The runs.
        out: The file; its ending decides the format (png, svg, pdf).
        paper: Figures of the paper; drawn as hollow marks where it gives a pass@k.

    Returns:
        The path of the file.
    """
    check_format(out)
    panels = list(dict.fromkeys(name for summary in summaries for name in summary.rows))
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(3.6 * columns, 2.8 * rows + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, name in zip(grid.flat, panels, strict=False):
        _draw(axes, name, summaries, paper)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    entries = {label: mark for axes in grid.flat for mark, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    if len(entries) > 1:
        figure.legend(
            entries.values(), entries.keys(), loc="outside lower center", ncols=min(4, len(entries)), fontsize=8
        )
    else:
        figure.suptitle(summaries[0].run.name, fontsize=11)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=120)
    return out


def check_format(out: Path) -> None:
    """Raise EvaluationError unless the file's ending is one of `FORMATS`."""
    if out.suffix not in FORMATS:
        raise EvaluationError(f"--plot {out}: the file has to end in one of {', '.join(FORMATS)}")


def _draw(axes: Axes, name: str, summaries: Sequence[Summary], paper: Sequence[PaperRun]) -> None:
    longest = 1
    for index, summary in enumerate(summaries):
        numbers = summary.rows.get(name)
        if numbers is None:
            continue
        longest = max(longest, numbers.n)
        _draw_curve(axes, numbers, summary.run.name, f"C{index}")
    for index, entry in enumerate(paper):
        points = {k: value for (set_name, k), value in entry.passes.items() if set_name == name}
        if points:
            colour = f"C{len(summaries) + index}"
            label = f"{entry.name} (paper)"
            axes.plot(points.keys(), points.values(), "D", color=colour, fillstyle="none", label=label)
            longest = max(longest, *points)
    axes.set_title(name, fontsize=10)
    axes.set_xscale("log", base=2)
    ticks = [2**power for power in range(longest.bit_length())]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels(map(str, ticks))
    axes.set_xlim(0.9, longest * 1.1)
    axes.set_xlabel("k", fontsize=8)
    axes.set_ylabel("pass@k, %", fontsize=8)
    axes.set_ylim(bottom=0)
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.3)


def _draw_curve(axes: Axes, numbers: SetSummary, label: str, colour: str) -> None:
    ks = range(1, numbers.n + 1)
    marks = [2**power - 1 for power in range(numbers.n.bit_length())]
    values = [100 * estimate.value for estimate in numbers.passes]
    axes.plot(ks, values, color=colour, label=label, marker="o", markersize=3, markevery=marks)
    if numbers.passes[0].low is not None:
        low, high = ([100 * getattr(estimate, end) for estimate in numbers.passes] for end in ("low", "high"))
        axes.fill_between(ks, low, high, color=colour, alpha=0.15, linewidth=0)
