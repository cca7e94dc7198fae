# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""``epgrpo prepare``: the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from .errors import PrepareError
from .filters import Progress as Advance
from .prepare import DEFAULT_MODEL, Options, Report, prepare
from .sources import SOURCES

app = typer.Typer(add_completion=False, rich_markup_mode=None)

Name = Enum("Name", {name: name for name in SOURCES}, type=str)


@app.command("prepare", no_args_is_help=True)
def prepare_command(
    names: Annotated[list[Name], typer.Argument(metavar="NAME...", help=f"Any of: {', '.join(SOURCES)}.")],
    out: Annotated[Path, typer.Option(help="Folder of the prepared files.")] = Path("~/data/epgrpo"),
    file: Annotated[
        Path | None, typer.Option(help="A local copy of the published file (.parquet, .jsonl, .json).")
    ] = None,
    revision: Annotated[str | None, typer.Option(help="Another commit of the data set than the pinned one.")] = None,
    sha256: Annotated[str | None, typer.Option(help="The checksum that the file must have.")] = None,
    rows: Annotated[
        int | None, typer.Option(min=1, help="The number of rows the file must have, if not the published one.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Model whose chat template counts prompt tokens: a hub name or a folder. "
            f"[default: {DEFAULT_MODEL} for skywork, no count for the others]",
            show_default=False,
        ),
    ] = None,
    max_prompt_tokens: Annotated[int, typer.Option(min=1, help="The longest prompt.")] = 1024,
    limit: Annotated[int, typer.Option(min=0, help="Training rows to keep; 0 keeps all.")] = 8000,
    seed: Annotated[int, typer.Option(help="Seed of the shuffle of training rows.")] = 42,
    min_difficulty: Annotated[int, typer.Option(min=0, max=16, help="skywork: fewest failures of 16.")] = 1,
    max_difficulty: Annotated[int, typer.Option(min=0, max=16, help="skywork: most failures of 16.")] = 15,
    benchmarks: Annotated[
        Path | None, typer.Option(help="Folder of the prepared benchmarks. [default: --out]", show_default=False)
    ] = None,
    decontaminate: Annotated[bool, typer.Option(help="Drop training problems that are in a benchmark.")] = True,
) -> None:
    """Make parquet files for verl from published problems, checked and repaired.

    Downloads a file at a pinned commit, or takes a local copy; checks its checksum, row count and answers; mends the
    known faults. Benchmarks are kept whole. Of training data, rows are dropped that have no single gradable answer,
    are duplicates, are in a benchmark, are too easy or too hard, or have too long a prompt.

    Beside NAME.parquet, NAME.manifest.json tells what was done and NAME.dropped.jsonl every dropped row and why.

    Examples:

    \b
    The paper's five benchmarks, then the training set:
      epgrpo prepare math500 amc23 minerva aime24 aime25
      epgrpo prepare skywork

    \b
    Without access to the hub:
      epgrpo prepare math500 --file math500.jsonl
      epgrpo prepare skywork --file math-00000-of-00001.parquet --model /models/Qwen2.5-3B
    """
    console = Console(stderr=True)
    if len(names) > 1 and (file is not None or sha256 is not None or rows is not None or revision is not None):
        _fail(console, "--file, --revision, --sha256 and --rows are about one file: give one NAME with them")
    if min_difficulty > max_difficulty:
        _fail(console, f"--min-difficulty {min_difficulty} is above --max-difficulty {max_difficulty}")
    options = Options(
        out=out.expanduser(),
        file=None if file is None else file.expanduser(),
        revision=revision,
        sha256=sha256,
        rows=rows,
        model=model,
        max_prompt_tokens=max_prompt_tokens,
        limit=limit or None,
        seed=seed,
        difficulty=(min_difficulty, max_difficulty),
        benchmarks=None if benchmarks is None else benchmarks.expanduser(),
        decontaminate=decontaminate,
    )
    for name in names:
        try:
            with _steps(console) as steps:
                report = prepare(SOURCES[name.value], options, steps)
        except PrepareError as error:
            _fail(console, f"epgrpo prepare {name.value}: {error}")
        _show(console, report)


def _fail(console: Console, message: str) -> None:
    console.print(message, style="red", markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(1)


@contextmanager
def _steps(console: Console) -> Iterator:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bars:

        @contextmanager
        def step(title: str, total: int) -> Iterator[Advance]:
            task = bars.add_task(title, total=total)
            yield lambda done: bars.advance(task, done)
            bars.remove_task(task)

        yield step


def _show(console: Console, report: Report) -> None:
    table = Table(title=f"{report.source.name}: {report.rows_out} of {report.rows_in} rows", title_justify="left")
    table.add_column("what")
    table.add_column("rows", justify="right")
    table.add_row("in the published file", str(report.rows_in))
    for rule, count in report.dropped.items():
        table.add_row(f"dropped: {rule}", str(-count))
    table.add_row("written", str(report.rows_out), style="bold")
    if report.repaired:
        table.add_row("of all, repaired", str(len(report.repaired)))
    console.print(table)
    for note in report.notes:
        console.print(f"note: {note}", markup=False, highlight=False, soft_wrap=True)
    typer.echo(report.path)
