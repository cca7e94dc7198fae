# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What a report says: the runs by name, the panels, the numbers of the table, and what to know about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean

from rich.markup import escape
from rich.table import Table

from epgrpo_verl.quickstart.summary import Summary, summarize
from epgrpo_verl.view.curves import PANELS, Panel, logged_panels
from epgrpo_verl.view.logs import Log
from epgrpo_verl.view.metrics import Logged, Metrics
from epgrpo_verl.view.seeds import INTERVAL, group
from epgrpo_verl.view.traces import SECTION, TRACE_PANELS, TraceLog

VALIDATION = "val-core/"


@dataclass(frozen=True)
class Report:
    """What is shown.

    Attributes:
        title: Heading.
        groups: Name to the logs of its runs, one per seed; none where there are traces only.
        traces: The same names, to the traces that were found of them.
        panels: Panels that at least one run logged, then those that at least one trace gives.
        left_out: Panels that none did.
    """

    title: str
    groups: Mapping[str, list[Log]]
    traces: Mapping[str, list[TraceLog]]
    panels: list[Panel]
    left_out: list[Panel]

    @property
    def runs(self) -> dict[str, list[Logged]]:
        """Name to the curves of its seeds: those of the logs, and those of the traces."""
        return {name: [*(log.metrics for log in logs), *self.traces[name]] for name, logs in self.groups.items()}

    def missing(self, panel: Panel) -> list[str]:
        """Names of which no seed has the panel's curve, of those that have logs, or traces for the panel of a trace."""
        having = self.traces if is_traced(panel) else self.groups
        return [name for name, seeds in self.runs.items() if having[name] and not logged_panels({name: seeds}, [panel])]

    def seeds(self, name: str) -> int:
        """Number of runs of a name."""
        return len(self.groups[name]) or len(self.traces[name])


def is_traced(panel: Panel) -> bool:
    """Whether a panel is drawn from traces."""
    return panel.section == SECTION


@dataclass(frozen=True)
class Cell:
    """A number of the table: its mean over the seeds, and where there are several, the lowest and the highest.

    Of two numbers, from the first to the last steps, the range is that of the second.
    """

    text: str
    range: str = ""


def make_report(
    runs: Sequence[tuple[str | None, Log]],
    title: str = "",
    smooth: int = 5,
    traces: Sequence[tuple[str | None, TraceLog]] = (),
) -> Report:
    """Sorts runs into names, and picks the panels.

    Args:
        runs: The name that was given for a run, or None, and the run.
        title: Heading; the names if empty.
        smooth: Steps of the running mean where a panel has one.
        traces: The name that was given for a run, or None, and its trace.

    Raises:
        ValueError: A run logged no reward, or there is nothing to show.
    """
    read = group([*runs, *traces])
    logs = {name: [one for one in those if isinstance(one, Log)] for name, those in read.items()}
    traced = {name: [one for one in those if isinstance(one, TraceLog)] for name, those in read.items()}
    for log in (log for those in logs.values() for log in those):
        _summary(log)
    metrics = {name: [log.metrics for log in those] for name, those in logs.items()}
    panels = [replace(panel, smooth=smooth if panel.smooth > 1 else 1) for panel in PANELS]
    logged = logged_panels(metrics, panels)
    shown = [*logged, *_validation_panels(metrics), *logged_panels(traced, TRACE_PANELS)]
    if not shown:
        damaged = [line for those in traced.values() for trace in those for line in trace.damaged]
        raise ValueError("\n".join(["nothing to show: no token in the traces", *damaged]))
    return Report(
        title=title or ", ".join(read),
        groups=logs,
        traces=traced,
        panels=shown,
        left_out=[panel for panel in panels if panel not in logged] if runs else [],
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
    if not logs:
        return [Cell("no log"), *[Cell("")] * (len(HEADINGS) - 2)]
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
    lines = [line] if (line := note(report)) else []
    if report.left_out:
        lines.append(f"left out, because no run logged it: {titles(report.left_out)}")
    for panel in report.panels:
        if names := report.missing(panel):
            lines.append(f"{panel.title}: {absence(panel)} {', '.join(names)}")
    return [*lines, *trace_remarks(report), *trace_warnings(report)]


def absence(panel: Panel) -> str:
    """What `Report.missing` means for a panel."""
    return "no such token in the traces of" if is_traced(panel) else "not logged by"


def trace_remarks(report: Report) -> list[str]:
    """What was traced, and which names have no trace."""
    lines = [
        f"token traces of {name}: {counted(len(trace.steps), 'step')}"
        + (f" ({trace.steps[0]} to {trace.steps[-1]})" if len(trace.steps) > 1 else "")
        + f", {counted(trace.groups, 'group')}, {counted(trace.tokens, 'token')}"
        for name, traces in report.traces.items()
        for trace in traces
    ]
    without = [name for name, traces in report.traces.items() if not traces]
    if without:
        lines.append(
            f"no token traces found of {', '.join(without)}: a run with algorithm.adv_estimator=ep_grpo writes them "
            "with +algorithm.ep_grpo.trace_dir=<folder>"
        )
    return lines


def trace_warnings(report: Report) -> list[str]:
    """The trace files that were left out, and why; traces that a former run may have left behind."""
    lines = [f"left out: {line}" for traces in report.traces.values() for trace in traces for line in trace.damaged]
    for name, logs in report.groups.items():
        logged = max((step for log in logs for step in log.metrics.steps), default=None)
        traced = max((step for trace in report.traces[name] for step in trace.steps), default=0)
        # The trace of a step that is under way is written before the step is logged.
        if logged is not None and traced > logged + 1:
            lines.append(
                f"the token traces of {name} go on to step {traced}, its log ends at step {logged}: the later ones may "
                "be of a former run with the same trace_dir"
            )
    return lines


def counted(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def note(report: Report) -> str:
    """How to read the table and the curves of the logs; empty without logs."""
    if not any(report.groups.values()):
        return ""
    smooth = max((panel.smooth for panel in report.panels), default=1)
    line = f"a → b: from the first to the last {_window(report)}. Seconds per step: the median."
    if smooth > 1:
        line += f" Reward and shares are drawn as running means of {smooth} steps, a single run's values behind them."
    if any(report.seeds(name) > 1 for name in report.groups):
        line += f" Several seeds: {INTERVAL}, at the steps that all of them logged."
    return line


def _window(report: Report) -> str:
    windows = sorted({_summary(log).window for logs in report.groups.values() for log in logs})
    if windows == [1]:
        return "step"
    return f"{windows[0]} steps" if len(windows) == 1 else f"{windows[0]} to {windows[-1]} steps"


def titles(panels: Sequence[Panel]) -> str:
    """Panels in a sentence."""
    return ", ".join(f"{panel.title} ({panel.metric})" for panel in panels)
