# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Command line: ``python -m benchmarks.gpu --help``, from the root of the checkout."""

from __future__ import annotations

import json
import time
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

Dtype = Enum("Dtype", {name: name for name in ("bfloat16", "float32")}, type=str)

app = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
console = Console()


def tables(result: dict[str, Any]) -> list[Table]:
    """Lays a result out for a terminal."""
    measured = Table("part", "seconds", "extra memory", "calls", title="Parts", title_justify="left")
    for name, part in result["parts"].items():
        memory = "" if part["extra_bytes"] is None else f"{part['extra_bytes'] / 2**20:.0f} MiB"
        measured.add_row(name, f"{part['seconds']:.5f}", memory, str(part["calls"]))
    steps = Table("step without generation", "seconds", "over GRPO", title="Steps", title_justify="left")
    for name, step in result["steps"].items():
        steps.add_row(name, f"{step['seconds']:.4f}", f"{step['over_grpo']:.3f}")
    return [measured, steps]


@app.command(context_settings={"help_option_names": ["-h", "--help"]})
def main(
    device: Annotated[str, typer.Option(help="cuda, cuda:1, ... or cpu.")] = "cuda",
    small: Annotated[bool, typer.Option("--small", help="A tiny model and batches, for a CPU.")] = False,
    dtype: Annotated[Dtype | None, typer.Option(help="Default: bfloat16 on a GPU, float32 on a CPU.")] = None,
    budget: Annotated[float, typer.Option(help="Seconds after which no further part is begun.")] = 240.0,
    out: Annotated[Path | None, typer.Option(help="JSON file to write.")] = None,
) -> None:
    """Measure what EP-GRPO costs beside GRPO on one device. Fits 5 minutes and needs no network.

    The model is a Qwen2 of the shape of Qwen2.5-0.5B with random weights: times do not depend on their values. The
    parts are a pass for old log-probs and entropy (verl's entropy function, at once and in chunks), a pass of a
    reference model, the advantages (verl's grpo and grpo_vectorized, and ep_grpo with its checks and metrics) and
    an update with verl's loss, with and without EP-GRPO's policy-loss hook.

    [bold]Read the ratio as an upper bound.[/bold] A step is the sum of its parts without generation, which takes as
    long for both, and usually longer than the rest. GRPO has no reference pass here; with a KL term it has one too.
    No Ray, no sharding, no padding removal: all rows are full.
    """
    import torch

    from benchmarks.gpu.bench import run
    from benchmarks.gpu.sizes import FULL, SMALL

    started = time.monotonic()
    place = torch.device(device)
    if place.type == "cuda" and not torch.cuda.is_available():
        console.print("error: torch sees no GPU. --device cpu --small runs on the CPU.", style="red")
        raise typer.Exit(2)
    name = dtype.value if dtype else ("float32" if place.type == "cpu" else "bfloat16")
    with console.status("measuring") as status:
        result = run(
            SMALL if small else FULL,
            place,
            getattr(torch, name),
            budget,
            lambda part: status.update(f"measuring {part}"),
        )
    for table in tables(result):
        console.print(table)
    about = result["about"]
    console.print(f"{about['device_name']}, {name}, torch {about['versions']['torch']}", highlight=False)
    if part := result["ended_before"]:
        text = f"--budget {budget:g} s are over: not measured are {part} and what comes after it"
        console.print(text, style="red", highlight=False)
    console.print(f"{time.monotonic() - started:.0f} s in all", highlight=False)
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(result, indent=1) + "\n")
        console.print(f"wrote {out}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.gpu")
