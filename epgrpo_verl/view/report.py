# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""``epgrpo report``: the curves of one or more runs, as a picture and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

if TYPE_CHECKING:
    from epgrpo_verl.view.logs import Log
    from epgrpo_verl.view.traces import TraceLog

app = typer.Typer(add_completion=False, rich_markup_mode=None)

PNG, HTML = "report.png", "report.html"


@app.command("report", no_args_is_help=True)
def report_command(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN",
            help="A folder or a log file of verl, or a folder of token traces, or NAME=PATH. "
            "Runs of one name are its seeds.",
        ),
    ],
    out: Annotated[Path, typer.Option(help=f"Folder that gets {PNG} and {HTML}.")] = Path("report"),
    title: Annotated[str, typer.Option(help="Heading. [default: the names of the runs]", show_default=False)] = "",
    smooth: Annotated[
        int, typer.Option(min=1, help="Steps of the running mean of the reward and of the shares; 1 for none.")
    ] = 5,
) -> None:
    """Draw reward, zero-variance groups, gate, log-ratio, entropy, lengths and times of one or more runs.

    Reads what verl's loggers wrote: the file logger's .jsonl, tensorboard's event files (with the package tensorboard),
    or the console output, in this order if a folder has several. Runs whose names differ in their seed only, such as
    3b_grpo_seed1 and 3b_grpo_seed2, become one curve: the mean, with a band from the lowest to the highest seed.

    Token traces in a run's folder, or in a folder of it, add what logs do not have: the gate against the entropy, the
    share of the progress part, sign flips, where in a response the policy has moved, and zero-variance groups.

    Examples:

    \b
    One run:
      epgrpo report runs/cpu_quickstart-easy-ep_grpo-hf-seed0

    \b
    Three seeds of two estimators:
      epgrpo report runs/3b_epgrpo_seed* runs/3b_grpo_seed* --out runs/report

    \b
    Names of your own, a console log, and traces from another place:
      epgrpo report EP-GRPO=runs/a EP-GRPO=/data/traces/a GRPO=grpo.log
    """
    from epgrpo_verl.view import report_data as data
    from epgrpo_verl.view.report_page import write_report

    console = Console()
    try:
        with Console(stderr=True).status("Reading the runs"):
            logs, traces = _read(runs)
        report = data.make_report(logs, title, smooth, traces)
        written = write_report(report, out.expanduser(), PNG, HTML)
    except (OSError, ValueError, ModuleNotFoundError) as error:
        Console(stderr=True).print(
            f"epgrpo report: {error}", style="red", markup=False, highlight=False, soft_wrap=True
        )
        raise typer.Exit(1) from None
    if logs:
        console.print(data.as_table(report))
    for line in [*data.remarks(report), *map(str, written)]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _read(runs: Sequence[str]) -> tuple[list[tuple[str, Log]], list[tuple[str, TraceLog]]]:
    """Reads the logs and the traces of the runs, each with the run's name."""
    from epgrpo_verl.view.logs import load_run
    from epgrpo_verl.view.seeds import name_of
    from epgrpo_verl.view.traces import load_trace, trace_folder

    logs, traces = [], {}
    for run in runs:
        name, path = _named(run)
        trace = trace_folder(path)
        if name is None:
            name = name_of(path)
        if path != trace or path.is_dir():
            try:
                logs.append((name, load_run(path)))
            except FileNotFoundError:
                if trace is None:
                    raise
        # The same trace may be given twice: as a folder of its own, and in that of its run.
        if trace is not None and (key := (name, trace.resolve())) not in traces:
            traces[key] = load_trace(trace)
    return logs, [(name, trace) for (name, _), trace in traces.items()]


def _named(run: str) -> tuple[str | None, Path]:
    if Path(run).expanduser().exists() or "=" not in run:
        return None, Path(run).expanduser()
    parts = run.split("=")
    splits = [("=".join(parts[:end]), Path("=".join(parts[end:])).expanduser()) for end in range(1, len(parts))]
    # Both name and path may hold a =: the first place that makes a path which exists is meant.
    name, path = next((split for split in splits if split[1].exists()), splits[0])
    if not name:
        raise ValueError(f"{run}: no name before the =")
    return name, path
