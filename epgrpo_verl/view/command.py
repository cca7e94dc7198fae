# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""``epgrpo view``: the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ..trace.format import TraceError
from ..trace.reader import read_trace
from .page import viewer_page

app = typer.Typer(add_completion=False, rich_markup_mode=None)

LARGE_MB = 30
"""Pages above this (10^6 bytes) take a browser several seconds to open."""


@app.command(no_args_is_help=True)
def view(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="A folder of traces, or one step_*.jsonl.gz.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The page. [default: TRACE/trace.html]", show_default=False),
    ] = None,
    step: Annotated[list[int] | None, typer.Option(help="Only this step; can be given several times.")] = None,
) -> None:
    """Show a token trace: which token was credited with what, and what plain GRPO would have given it.

    Makes one HTML file that needs no server and no network: open it in any browser, mail it, put it on a phone. It
    shows the responses of a group side by side. Tokens are coloured by advantage, outcome part, progress part, gate,
    entropy, progress coordinate, bucket, log-ratio, or the difference to GRPO; pointing at a token gives its numbers.

    A trace is written by a run with these settings (docs/trace.md):

    \b
      algorithm.adv_estimator=ep_grpo +algorithm.ep_grpo.trace_dir=/data/traces/my_run
      +algorithm.ep_grpo.trace_every=10     steps 1, 10, 20, ... (default 10)
      +algorithm.ep_grpo.trace_groups=4     groups drawn from each (default 4)
      +algorithm.ep_grpo.trace_max_mb=100   no more traces beyond that size (default 100)

    Examples:

    \b
    All steps, chosen in the page:
      epgrpo view /data/traces/my_run

    \b
    Two steps of a long run:
      epgrpo view /data/traces/my_run --step 10 --step 200 -o credit.html

    \b
    One file that was copied from a cluster:
      epgrpo view step_000200.jsonl.gz
    """
    console = Console(stderr=True)
    try:
        steps = read_trace(trace, step or None)
    except TraceError as error:
        _fail(console, str(error))
    trace = trace.expanduser()
    target = out.expanduser() if out is not None else _default_out(trace)
    page = viewer_page(steps, trace.resolve().name)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page, encoding="utf-8")
    except OSError as error:
        _fail(console, f"{target} cannot be written ({error.strerror}): give another file with --out")
    size = len(page) / 1_000_000
    if size > LARGE_MB:
        console.print(
            f"The page has {size:.0f} MB and will open slowly: take some steps only, with --step.", highlight=False
        )
    typer.echo(target)


def _default_out(trace: Path) -> Path:
    return trace / "trace.html" if trace.is_dir() else trace.with_name(trace.name.removesuffix(".jsonl.gz") + ".html")


def _fail(console: Console, message: str) -> None:
    console.print(message, style="red", markup=False, soft_wrap=True)
    raise typer.Exit(1)
