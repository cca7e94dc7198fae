# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The numbers as tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from .compare import Difference, has_all_benchmarks
from .paper import SOURCE, PaperRun
from .statistics import LEVEL, Estimate
from .summary import SetSummary, Summary

NOT_KNOWN = "-"


def percent(estimate: Estimate | None, signed: bool = False) -> Text:
    """A share in percent, with its interval on a second line."""
    if estimate is None:
        return Text("not available", style="dim")
    sign, to = ("+", " to ") if signed else ("", "-")
    text = Text(f"{100 * estimate.value:{sign}.2f}")
    if estimate.low is not None and estimate.high is not None:
        text.append(f"\n{100 * estimate.low:{sign}.1f}{to}{100 * estimate.high:{sign}.1f}", style="dim")
    return text


def share(value: float | None) -> str:
    """A share in percent, without an interval."""
    return NOT_KNOWN if value is None else f"{100 * value:.1f}"


def header(settings: Mapping[str, Any]) -> Table:
    """How the samples were made."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in settings.items():
        table.add_row(name, Text(str(value)))
    return table


def settings_tables(summaries: Sequence[Summary]) -> Group:
    """How the samples of several runs were made: what they share, then what differs, a column for each."""
    headers = [summary.run.header for summary in summaries]
    names = list(dict.fromkeys(name for settings in headers for name in settings))
    same = {name: headers[0].get(name) for name in names if len({str(settings.get(name)) for settings in headers}) == 1}
    if len(same) == len(names):
        return Group(header(same))
    table = _table("settings that differ", "")
    for summary in summaries:
        table.add_column(Text(summary.run.name), overflow="fold")
    for name in names:
        if name not in same:
            table.add_row(name, *(Text(str(settings.get(name, NOT_KNOWN))) for settings in headers))
    return Group(header(same), Text(), table)


def run_table(summary: Summary, ks: Sequence[int]) -> Table:
    """One row per set: avg@n and pass@k for the given k."""
    samples = _sizes(summary)
    table = _table(f"{summary.run.name}: right answers, percent", "set")
    table.add_column("problems", justify="right")
    for name in (f"avg@{samples}" if samples.isdigit() else "avg@n", *(f"pass@{k}" for k in ks)):
        table.add_column(name, justify="right", no_wrap=True)
    for name, numbers in summary.rows.items():
        if numbers is summary.average:
            table.add_section()
        estimates = (numbers.avg, *(numbers.at(k) for k in ks))
        table.add_row(Text(name), str(numbers.problems), *map(percent, estimates))
    return table


def endings_table(summary: Summary) -> Table:
    """One row per set: how the responses ended, and how long they are."""
    table = _table("responses: percent, and lengths in tokens", "set")
    for name in ("samples", "cut off", "no box", "grader errors", "mean", "median", "p95", "max"):
        # wide enough for its longest word, which rich would cut before it breaks a line
        table.add_column(name, justify="right", min_width=max(map(len, name.split())))
    for name, numbers in summary.rows.items():
        if numbers is summary.average:
            table.add_section()
        errors = Text(str(numbers.grader_errors), style="bold red" if numbers.grader_errors else "")
        lengths = None if numbers.tokens is None else vars(numbers.tokens).values()
        table.add_row(
            Text(name),
            str(numbers.samples),
            share(numbers.truncated),
            share(numbers.no_box),
            errors,
            *([NOT_KNOWN] * 4 if lengths is None else [f"{length:.0f}" for length in lengths]),
        )
    return table


def _table(title: str, first: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(first, no_wrap=True)
    return table


def _sizes(summary: Summary) -> str:
    return ", ".join(str(n) for n in sorted({numbers.n for numbers in summary.sets.values()}))


def footnotes(summary: Summary) -> list[str]:
    """What a reader of the table has to know."""
    notes = [f"intervals: {100 * LEVEL:.0f} % of a bootstrap over problems"]
    if summary.average is not None:
        notes.append("average: over the sets, each counting the same")
    errors = sum(numbers.grader_errors for numbers in summary.sets.values())
    if errors:
        notes.append(
            f"the grader failed on {errors} samples; they count as not right. Their reasons are in the samples; "
            "--regrade tries again, with more time for each if --deadline is raised"
        )
    return [*notes, *summary.run.notes]


def show_run(summary: Summary, ks: Sequence[int]) -> Group:
    """Header, table and footnotes of one run."""
    notes = (Text(f"note: {note}") for note in footnotes(summary))
    return Group(header(summary.run.header), Text(), run_table(summary, ks), endings_table(summary), *notes)


def comparison_table(summaries: Sequence[Summary], ks: Sequence[int], paper: Sequence[PaperRun]) -> Table:
    """Sets by runs; the paper's figures in columns of their own, marked as such."""
    table = _table("right answers, percent", "")
    for summary in summaries:
        table.add_column(Text(summary.run.name), justify="right")
    for entry in paper:
        table.add_column(f"{entry.name}\n(paper)", justify="right", style="italic cyan")
    names = list(dict.fromkeys(name for summary in summaries for name in summary.rows))
    for k in (None, *ks):
        table.add_row(Text("avg@n" if k is None else f"pass@{k}", style="bold"))
        for name in names:
            cells = [_cell(summary.rows.get(name), k) for summary in summaries]
            figures = [_figure(entry, name, k, all(map(_comparable, summaries))) for entry in paper]
            table.add_row(Text(f"  {name}"), *cells, *figures)
        table.add_section()
    table.add_row(Text("n"), *map(_sizes, summaries), *("not known" for _ in paper))
    table.add_row(Text("tokens, mean"), *(_tokens(summary) for summary in summaries), *("" for _ in paper))
    return table


def _comparable(summary: Summary) -> bool:
    return has_all_benchmarks(summary.run)


def _cell(numbers: SetSummary | None, k: int | None) -> Text:
    if numbers is None:
        return Text("")
    return percent(numbers.avg if k is None else numbers.at(k))


def _figure(entry: PaperRun, name: str, k: int | None, five: bool) -> str:
    if name == "average" and not five:
        return ""
    value = entry.accuracy.get(name) if k is None else entry.passes.get((name, k))
    return "" if value is None else f"{value:.2f}"


def _tokens(summary: Summary) -> str:
    lengths = [numbers.tokens for numbers in summary.rows.values()][-1]
    return NOT_KNOWN if lengths is None else f"{lengths.mean:.0f}"


def difference_table(
    baseline: Summary, others: Sequence[Summary], found: Sequence[Mapping[str, Difference]], ks: Sequence[int]
) -> Table:
    """Runs minus the baseline, in percentage points, with intervals of the paired bootstrap."""
    table = _table(f"minus {baseline.run.name}, points", "")
    for summary in others:
        table.add_column(Text(summary.run.name), justify="right")
    names = list(dict.fromkeys(name for difference in found for name in difference))
    for k in (None, *ks):
        table.add_row(Text("avg@n" if k is None else f"pass@{k}", style="bold"))
        for name in names:
            table.add_row(Text(f"  {name}"), *(_gap(difference.get(name), k) for difference in found))
        table.add_section()
    return table


def _gap(difference: Difference | None, k: int | None) -> Text:
    if difference is None:
        return Text("")
    if difference.why_not:
        return Text(difference.why_not, style="dim")
    estimate = difference.avg if k is None else difference.at(k)
    text = percent(estimate, signed=True)
    if estimate is not None and estimate.low is not None and (estimate.low > 0 or estimate.high < 0):
        text.stylize("bold")
    return text


def comparison_notes(summaries: Sequence[Summary], paper: Sequence[PaperRun]) -> list[str]:
    """What a reader of the comparison has to know."""
    notes = [f"intervals: {100 * LEVEL:.0f} % of a bootstrap over problems; bold differences do not contain 0"]
    if paper:
        notes.append(f"(paper): reported by {SOURCE}, not measured here; its n and sampling are not known to us")
        if not all(map(_comparable, summaries)):
            notes.append("the paper's average is over five sets; it is shown where every run has exactly those")
    return notes + [f"{summary.run.name}: {note}" for summary in summaries for note in summary.run.notes]
