# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The few numbers that say how a run went."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import mean, median

from rich.table import Table

from epgrpo_verl.view.metrics import RECOVERED_TOKENS, REWARD, STEP_SECONDS, ZERO_VARIANCE, Metrics

CAPTION = (
    "Zero-variance groups: all rewards equal, so that GRPO learns nothing. "
    "Recovered tokens: share of all tokens that get a signal there from EP-GRPO."
)


@dataclass(frozen=True)
class Summary:
    """A run in numbers. None where the run did not log the metric, as without EP-GRPO.

    Attributes:
        steps: Training steps that were logged.
        window: Steps that ``first`` and ``last`` values are averaged over.
        reward_first: Mean reward of the first ``window`` steps.
        reward_last: Mean reward of the last ``window`` steps.
        zero_variance_first: Share of groups with equal rewards in the first ``window`` steps.
        zero_variance_last: The same for the last ``window`` steps.
        recovered_tokens: Mean over all steps of the share of tokens with a signal only from the zero-variance rule.
        seconds_per_step: Median time of a step; the first ones, which warm things up, barely move it.
    """

    steps: int
    window: int
    reward_first: float
    reward_last: float
    zero_variance_first: float | None
    zero_variance_last: float | None
    recovered_tokens: float | None
    seconds_per_step: float | None


def summarize(metrics: Metrics) -> Summary:
    """Computes the summary of a run.

    Raises:
        ValueError: The run logged no reward, so not one training step ended.
    """
    steps, rewards = metrics.series(REWARD)
    if not steps:
        raise ValueError(f"the run logged no {REWARD}: no training step has ended")
    window = max(1, min(5, len(steps) // 2))
    _, zero_variance = metrics.series(ZERO_VARIANCE)
    _, recovered = metrics.series(RECOVERED_TOKENS)
    _, seconds = metrics.series(STEP_SECONDS)
    return Summary(
        steps=len(steps),
        window=window,
        reward_first=mean(rewards[:window]),
        reward_last=mean(rewards[-window:]),
        zero_variance_first=mean(zero_variance[:window]) if zero_variance else None,
        zero_variance_last=mean(zero_variance[-window:]) if zero_variance else None,
        recovered_tokens=mean(recovered) if recovered else None,
        seconds_per_step=median(seconds) if seconds else None,
    )


def as_table(summary: Summary, title: str = "") -> Table:
    """Lays the summary out for a terminal."""

    def share(value: float | None) -> str:
        return "not logged" if value is None else f"{value:.0%}"

    table = Table(title=title or None, show_header=True, title_justify="left", caption_justify="left")
    table.add_column("")
    table.add_column(f"first {summary.window}" if summary.window > 1 else "first step", justify="right")
    table.add_column(f"last {summary.window}" if summary.window > 1 else "last step", justify="right")
    table.add_row("mean reward", f"{summary.reward_first:.3f}", f"{summary.reward_last:.3f}")
    table.add_row("zero-variance groups", share(summary.zero_variance_first), share(summary.zero_variance_last))
    table.add_section()
    table.add_row("recovered tokens, whole run", "", share(summary.recovered_tokens))
    seconds = "not logged" if summary.seconds_per_step is None else f"{summary.seconds_per_step:.2f}"
    table.add_row("seconds per step, median", "", seconds)
    table.add_row("training steps", "", str(summary.steps))
    if summary.recovered_tokens is not None:
        table.caption = CAPTION
    return table
