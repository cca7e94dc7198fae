# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""``epgrpo compare``: the command line."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console, Group
from rich.text import Text

from .compare import Difference, differences
from .errors import EvaluationError
from .paper import PAPER, SOURCE
from .plot import check_format, plot_pass_at_k
from .runs import Run, load_run
from .summary import RESAMPLES, Summary, as_json, summarize
from .table import comparison_notes, comparison_table, difference_table, settings_tables
from .terminal import messages

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command("compare", no_args_is_help=True)
def compare_command(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...", help="Folders of epgrpo evaluate, or files of verl's validation; NAME=PATH names one."
        ),
    ],
    paper: Annotated[
        Literal["3b", "7b"] | None,
        typer.Option(help="Put the paper's figures for this size of Qwen2.5 beside them.", show_default=False),
    ] = None,
    k: Annotated[
        list[int] | None,
        typer.Option("--k", "-k", min=1, help="A pass@k to compare; repeatable. [default: the largest]"),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw all pass@k curves to this file (png, svg, pdf).", show_default=False)
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write all numbers to this file.", show_default=False)
    ] = None,
    resamples: Annotated[int, typer.Option(min=100, help="Bootstrap draws for the intervals.")] = RESAMPLES,
) -> None:
    """Put runs side by side, and the paper's figures if wanted.

    The first run is the baseline. Where another one has the same problems, its difference to the baseline is given
    with an interval: problems are drawn for both together, so a problem that is hard for both does not blur the
    difference. The paper's figures are what it reports; they were not measured here.

    Examples:

    \b
    Is EP-GRPO better than GRPO, and where does the paper stand?
      epgrpo compare base=runs/eval/base grpo=runs/eval/grpo epgrpo=runs/eval/epgrpo --paper 3b --plot pass_at_k.png

    \b
    Two validations of one training run:
      epgrpo compare runs/a/validation/100.jsonl runs/a/validation/1000.jsonl
    """
    console = Console(stderr=True)
    with messages(console, "epgrpo compare"):
        if plot is not None:
            check_format(plot)
        summaries = [summarize(run, resamples) for run in _load(runs)]
        entries = PAPER[paper] if paper else ()
        ks = _ks(k, summaries)
        for_paper = sorted({*ks, *(at for entry in entries for _, at in entry.passes)})
        baseline, *others = summaries
        found = [differences(summary.run, baseline.run, resamples) for summary in others]
        parts: list[Any] = [settings_tables(summaries), Text(), comparison_table(summaries, for_paper, entries)]
        if others:
            parts.append(difference_table(baseline, others, found, ks))
        notes = (Text(f"note: {note}") for note in comparison_notes(summaries, entries))
        Console().print(Group(*parts, *notes))
        if json_file is not None:
            report = _as_json(summaries, found, paper, resamples)
            json_file.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", "utf-8")
        if plot is not None:
            console.print(f"written: {plot_pass_at_k(summaries, plot, entries)}", markup=False, soft_wrap=True)


def _load(given: list[str]) -> list[Run]:
    runs = []
    for item in given:
        name, equals, path = item.partition("=")
        if not equals or Path(item).exists():
            name, path = "", item
        runs.append(load_run(Path(path).expanduser(), name or None))
    twice = [name for name, count in Counter(run.name for run in runs).items() if count > 1]
    if twice:
        raise EvaluationError(f"two runs are called {twice[0]!r}: give NAME=PATH")
    return runs


def _ks(wanted: list[int] | None, summaries: list[Summary]) -> list[int]:
    largest = max(numbers.n for summary in summaries for numbers in summary.sets.values())
    common = min(numbers.n for summary in summaries for numbers in summary.sets.values())
    if wanted and max(wanted) > largest:
        raise EvaluationError(
            f"pass@{max(wanted)} is not available: no run has more than {largest} samples per problem"
        )
    return sorted(set(wanted or [common])) if wanted or common > 1 else []


def _as_json(
    summaries: list[Summary], found: list[dict[str, Difference]], paper: str | None, resamples: int
) -> dict[str, Any]:
    report: dict[str, Any] = {
        "runs": [as_json(summary, resamples) for summary in summaries],
        "differences": {
            summary.run.name: {name: _difference_json(difference) for name, difference in differences_.items()}
            for summary, differences_ in zip(summaries[1:], found, strict=True)
        },
        "baseline": summaries[0].run.name,
    }
    if paper:
        report["paper"] = {
            "source": f"reported by {SOURCE}, not measured here",
            "unit": "percent",
            "runs": {
                entry.name: {
                    "accuracy": entry.accuracy,
                    "pass@k": [{"set": name, "k": k, "value": value} for (name, k), value in entry.passes.items()],
                }
                for entry in PAPER[paper]
            },
        }
    return report


def _difference_json(difference: Difference) -> dict[str, Any]:
    if difference.why_not:
        return {"not_available": difference.why_not}
    return {
        "avg@n": difference.avg._asdict() if difference.avg else None,
        "pass@k": {str(k): estimate._asdict() for k, estimate in enumerate(difference.passes, 1)},
    }
