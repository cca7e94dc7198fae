# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Learning curves: the mean over seeds and its interval, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.learning.compact import GRAD_NORM, HELD_OUT, ZERO_VARIANCE
from benchmarks.learning.compare import Seeds
from benchmarks.learning.stats import LAST_STEPS, MIN_SEEDS, bootstrap_interval
from epgrpo_verl.view.curves import running_mean
from epgrpo_verl.view.metrics import REWARD

RESAMPLES = 2000
PANELS = (
    ("Mean reward", REWARD, LAST_STEPS),
    ("Accuracy on held-out problems", HELD_OUT, 1),
    ("Zero-variance groups", ZERO_VARIANCE, LAST_STEPS),
    ("Gradient norm", GRAD_NORM, LAST_STEPS),
)
"""Title, metric, and steps of the running mean over each run's values."""


def _draw(axes: Axes, title: str, metric: str, smooth: int, arms: Mapping[str, Seeds]) -> None:
    for index, (name, seeds) in enumerate(arms.items()):
        runs = [run.series[metric] for run in seeds.values()]
        steps = sorted(set.intersection(*map(set, runs)))  # a gradient norm may have been no finite number
        values = np.array([running_mean([run[step] for step in steps], smooth) for run in runs])
        axes.plot(steps, values.mean(axis=0), color=f"C{index}", label=f"{name} (n = {len(runs)})", linewidth=1.4)
        if len(runs) >= MIN_SEEDS:
            bounds = [bootstrap_interval(column, resamples=RESAMPLES) for column in values.T]
            axes.fill_between(steps, *zip(*bounds, strict=True), color=f"C{index}", alpha=0.15, linewidth=0)
        elif len(runs) > 1:
            axes.plot(steps, values.T, color=f"C{index}", alpha=0.35, linewidth=0.6)
    axes.set_title(title + (f", mean of {smooth} steps" if smooth > 1 else ""), fontsize=9)
    axes.set_xlabel("training step", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.3)


def plot(arms: Mapping[str, Seeds], title: str, out: Path) -> Path:
    """Draws the curves of the arms of one task.

    Args:
        arms: Arm to seed to run.
        title: Heading of the figure.
        out: The file; its ending decides the format.

    Returns:
        The path of the file.
    """
    figure = Figure(figsize=(9.5, 6.8), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, panel in zip(figure.subplots(2, 2).flat, PANELS, strict=True):
        _draw(axes, *panel, arms)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8)
    around = "95 % bootstrap interval" if min(map(len, arms.values())) >= MIN_SEEDS else "each seed thin"
    figure.suptitle(f"{title}: mean over seeds, {around}", fontsize=10)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110, metadata={"Software": None})
    return out
