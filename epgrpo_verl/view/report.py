# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""``epgrpo report``: the curves of one or more runs, as a picture and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from epgrpo_verl.view.logs import Log

app = typer.Typer(add_completion=False, rich_markup_mode=None)

PNG, HTML = "report.png", "report.html"


@app.command("report", no_args_is_help=True)
def report_command(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN", help="A folder or a log file of verl, or NAME=PATH. Runs of one name are its seeds."
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

    Examples:

    \b
    One run:
      epgrpo report runs/cpu_quickstart-easy-ep_grpo-hf-seed0

    \b
    Three seeds of two estimators:
      epgrpo report runs/3b_epgrpo_seed* runs/3b_grpo_seed* --out runs/report

    \b
    Names of your own, and a console log:
      epgrpo report EP-GRPO=runs/a/metrics.jsonl GRPO=grpo.log
    """
    from epgrpo_verl.view import report_page as page

    console = Console()
    try:
        report = page.make_report([_named(run) for run in runs], title, smooth)
        written = page.write_report(report, out.expanduser(), PNG, HTML)
    except (OSError, ValueError, ModuleNotFoundError) as error:
        Console(stderr=True).print(
            f"epgrpo report: {error}", style="red", markup=False, highlight=False, soft_wrap=True
        )
        raise typer.Exit(1) from None
    console.print(page.as_table(report))
    for line in [*page.remarks(report), *map(str, written)]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _named(run: str) -> tuple[str | None, Log]:
    from epgrpo_verl.view.logs import load_run

    if Path(run).expanduser().exists() or "=" not in run:
        return None, load_run(Path(run).expanduser())
    parts = run.split("=")
    splits = [("=".join(parts[:end]), Path("=".join(parts[end:])).expanduser()) for end in range(1, len(parts))]
    # Both name and path may hold a =: the first place that makes a path which exists is meant.
    name, path = next((split for split in splits if split[1].exists()), splits[0])
    if not name:
        raise ValueError(f"{run}: no name before the =")
    return name, load_run(path)
