# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The diagnosis as a picture: a panel for each thing that was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from epgrpo_verl.evaluation.statistics import Estimate
from epgrpo_verl.view.curves import running_mean

from . import paper
from .concentration import TOP, Concentration
from .diagnosis import Diagnosis
from .perturbation import Perturbation
from .polarity import Polarity
from .traces import TraceDiagnosis
from .zero_variance import ZeroVariance

_PAPER = {"color": "black", "linestyle": "none", "marker": "D", "markerfacecolor": "white", "label": "paper"}
_SMOOTH = 5


def plot_diagnosis(diagnosis: Diagnosis, out: Path) -> Path:
    """Draws the figure and writes it.

    Args:
        diagnosis: What was measured; one thing at least.
        out: The file; its ending decides the format.

    Returns:
        The file.
    """
    panels = _panels(diagnosis)
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(3.7 * columns, 2.9 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, draw in zip(grid.flat, panels, strict=False):
        draw(axes)
        axes.tick_params(labelsize=8)
        axes.grid(alpha=0.3)
        if len(axes.get_legend_handles_labels()[1]):
            axes.legend(fontsize=7)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)
    return out


def _panels(diagnosis: Diagnosis) -> list[Callable[[Axes], None]]:
    model, trace, panels = diagnosis.model, diagnosis.trace, []
    curves = {
        "the model": None if model is None else model.concentration,
        "the trace": None if trace is None else trace.whole.concentration,
    }
    curves = {name: curve for name, curve in curves.items() if curve is not None}
    if curves:
        panels.append(lambda axes: draw_concentration(axes, curves))
    if model is not None and model.perturbation is not None:
        panels.append(lambda axes: draw_losses(axes, model.perturbation))
    if model is not None and model.polarity is not None:
        panels.append(lambda axes: draw_polarity(axes, model.polarity))
    if trace is not None and trace.whole.grpo is not None:
        for title, name, figure in (
            ("Right steps of failed responses,\nshare with advantage below 0", "right_punished", True),
            ("Wrong steps of winning responses,\nshare with advantage above 0", "wrong_rewarded", False),
        ):
            panels.append(lambda axes, t=title, n=name, f=figure: draw_trace(axes, trace, t, n, f))
    if diagnosis.runs or not panels:
        panels.append(lambda axes: draw_runs(axes, diagnosis.runs))
    return panels


def draw_concentration(axes: Axes, curves: Mapping[str, Concentration]) -> None:
    """Share of the entropy over the share of the tokens."""
    for index, (name, curve) in enumerate(curves.items()):
        label = f"{name}: top {100 * TOP:.0f} % hold {100 * curve.top_share:.1f} %"
        axes.plot(
            [100 * fraction for fraction in curve.fractions],
            [100 * share for share in curve.shares],
            color=f"C{index}",
            label=label,
        )
        axes.plot([100 * TOP], [100 * curve.top_share], "o", color=f"C{index}", markersize=4)
    axes.plot([0, 100], [0, 100], color="0.6", linewidth=1, linestyle=":", label="all tokens alike")
    axes.set_title("Entropy concentration", fontsize=10)
    axes.set_xlabel("tokens, highest entropy first, %", fontsize=8)
    axes.set_ylabel("share of the entropy, %", fontsize=8)


def draw_losses(axes: Axes, found: Perturbation) -> None:
    """Accuracy lost at tokens of high and of low entropy."""
    rows = {"any\nresponse": found.all, "right\nresponse": found.right}
    for offset, colour, kind in ((-0.18, "C1", "high"), (0.18, "C0", "low")):
        losses = [getattr(one, kind) for one in rows.values()]
        places = [place + offset for place, loss in enumerate(losses) if loss is not None]
        _bars(axes, places, [loss.lost for loss in losses if loss is not None], colour, f"{kind} entropy")
    axes.axhline(0, color="0.3", linewidth=0.8)
    axes.set_xticks(range(len(rows)), list(rows))
    axes.set_title("Accuracy lost by replacing a token", fontsize=10)
    axes.set_ylabel("percentage points", fontsize=8)


def _bars(axes: Axes, places: list[float], values: list[Estimate], colour: str, label: str | None = None) -> None:
    axes.bar(places, [100 * one.value for one in values], width=0.34, color=colour, label=label)
    for place, one in zip(places, values, strict=True):
        if one.low is not None:
            axes.plot([place, place], [100 * one.low, 100 * one.high], color="0.2", linewidth=1)


def draw_polarity(axes: Axes, found: Polarity) -> None:
    """The shares of steps that are judged against what they are, with the paper's figures."""
    rows = {
        "right steps,\nfailed response:\npunished": (found.right_punished, paper.RIGHT_STEPS_PUNISHED),
        "steps of\nwinning response:\nwrong": (found.wrong_in_winning, paper.WRONG_STEPS_IN_WINNING),
        "groups with\nequal\nrewards": (found.equal_groups, None),
    }
    places = [place for place, (one, _) in enumerate(rows.values()) if one is not None]
    _bars(axes, places, [one for one, _ in rows.values() if one is not None], "C2", "measured, GRPO")
    figures = {place: value for place, (_, value) in enumerate(rows.values()) if value is not None}
    axes.plot(list(figures), [100 * value for value in figures.values()], **_PAPER)
    axes.set_xticks(range(len(rows)), list(rows), fontsize=7)
    axes.set_title("Polarity and zero variance", fontsize=10)
    axes.set_ylabel("%", fontsize=8)
    axes.set_ylim(0, 103)


def draw_trace(axes: Axes, trace: TraceDiagnosis, title: str, name: str, figure: bool) -> None:
    """One share of polarity over the traced steps, for plain GRPO and EP-GRPO."""
    for colour, label, method in (("C0", "plain GRPO", "grpo"), ("C1", "EP-GRPO", "ep_grpo")):
        estimates = [(point.step, getattr(getattr(point, method), name)) for point in trace.points]
        shown = [(step, 100 * one.value) for step, one in estimates if one is not None]
        axes.plot([step for step, _ in shown], [value for _, value in shown], color=colour, marker=".", label=label)
    if figure:
        axes.axhline(100 * paper.RIGHT_STEPS_PUNISHED, color="0.35", linestyle="--", linewidth=1, label="paper (GRPO)")
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("training step", fontsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("%", fontsize=8)
    axes.set_ylim(-3, 103)


def draw_runs(axes: Axes, runs: Mapping[str, ZeroVariance]) -> None:
    """Share of groups with equal rewards over training."""
    for index, (name, found) in enumerate(runs.items()):
        values = [100 * share for share in found.series_groups]
        axes.plot(found.series_steps, values, color=f"C{index}", alpha=0.3, linewidth=1)
        axes.plot(found.series_steps, running_mean(values, _SMOOTH), color=f"C{index}", label=name)
    label = "paper, share of steps"
    axes.axhline(100 * paper.ZERO_VARIANCE, color="0.35", linestyle="--", linewidth=1, label=label)
    axes.set_title("Groups with equal rewards", fontsize=10)
    axes.set_xlabel("training step", fontsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("%", fontsize=8)
    axes.set_ylim(-3, 103)
