# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""``epgrpo evaluate``: the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import typer
from rich.console import Console

from epgrpo_verl.grading.score import DEADLINE_S

from . import grader as graders
from .backend import Engine, Sampling, choose_backend
from .collect import Plan, collect, regrade
from .errors import EvaluationError
from .model import open_model
from .plot import plot_pass_at_k
from .problems import load_problems
from .runs import load_run
from .summary import RESAMPLES, Summary, as_json, summarize
from .table import show_run
from .terminal import messages, progress_bar

SUMMARY, PLOT = "summary.json", "pass_at_k.png"

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command("evaluate", no_args_is_help=True)
def evaluate_command(
    more_data: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="More files for --data.", show_default=False)
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="A Hugging Face folder, or a name on the hub.", show_default=False)
    ] = None,
    lora: Annotated[
        str | None,
        typer.Option(help="Folder of a PEFT adapter for --model.", show_default=False),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE...", help="Problems as epgrpo prepare writes them.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the run: samples, summary, plot.", show_default=False)
    ] = None,
    n: Annotated[int, typer.Option("--n", "-n", min=1, help="Samples per problem.")] = 16,
    k: Annotated[
        list[int] | None,
        typer.Option("--k", "-k", min=1, help="A pass@k for the table; repeatable. [default: 4 and n]"),
    ] = None,
    backend: Annotated[
        Literal["auto", "hf", "vllm"],
        typer.Option(help="vllm, or hf for transformers; auto takes vllm where it is installed."),
    ] = "auto",
    temperature: Annotated[float, typer.Option(help="0 is greedy, with --n 1.")] = Sampling.temperature,
    top_p: Annotated[float, typer.Option(help="Nucleus sampling.")] = Sampling.top_p,
    top_k: Annotated[int, typer.Option(help="Most probable tokens to draw from; -1 for all.")] = Sampling.top_k,
    max_tokens: Annotated[int, typer.Option(help="Longest response.")] = Sampling.max_tokens,
    seed: Annotated[int, typer.Option(help="Each sample has a seed of its own, made from this.")] = Sampling.seed,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only the first problems of each set, for a trial.", show_default=False)
    ] = None,
    dtype: Annotated[
        Literal["auto", "bfloat16", "float16", "float32"], typer.Option(help="auto: that of the model's files.")
    ] = "auto",
    device: Annotated[str, typer.Option(help="hf: cpu, cuda, ...; auto takes cuda where there is one.")] = "auto",
    batch_size: Annotated[int, typer.Option(min=1, help="hf: samples generated together.")] = Engine.batch_size,
    tensor_parallel: Annotated[int, typer.Option(min=1, help="vllm: GPUs that share the model.")] = 1,
    memory_share: Annotated[float, typer.Option(min=0.05, max=1, help="vllm: share of a GPU's memory.")] = 0.9,
    max_num_seqs: Annotated[
        int | None, typer.Option(min=1, help="vllm: samples generated together.", show_default=False)
    ] = None,
    grader: Annotated[
        str, typer.Option(metavar="MODULE:FUNCTION", help="A reward function as verl calls it, giving 1 or 0.")
    ] = graders.OWN,
    rel_tol: Annotated[
        float | None,
        typer.Option(
            min=0, help="Relative tolerance for numbers; Minerva is often graded with 0.01.", show_default=False
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes that grade.")] = 2,
    deadline: Annotated[float, typer.Option(min=0.01, help="Seconds of work to grade one answer.")] = DEADLINE_S,
    resamples: Annotated[int, typer.Option(min=100, help="Bootstrap draws for the intervals.")] = RESAMPLES,
    dump: Annotated[
        Path | None,
        typer.Option(help="Read a file of verl's validation instead of sampling.", show_default=False),
    ] = None,
    again: Annotated[
        bool, typer.Option("--regrade", help="Grade the samples in --out again, and sample nothing.")
    ] = False,
) -> None:
    """Measure a model: avg@n and unbiased pass@k, with intervals, on problems with a known answer.

    Prompts are rendered with the model's chat template, as in training, and a response ends where the template ends a
    turn. Every sample is stored in DIR/samples.jsonl with its text, seed, length, finish reason and grade. Started
    again, the same command goes on where it stopped; a larger --n or more --data adds samples; other settings are
    refused. DIR/summary.json has all numbers, DIR/pass_at_k.png the curves.

    Examples:

    \b
    The paper's five sets, 16 samples per problem, with vLLM on a GPU:
      epgrpo evaluate --model Qwen/Qwen2.5-3B --out runs/eval/base -n 16 \\
          --data ~/data/epgrpo/{math500,amc23,minerva,aime24,aime25}.parquet

    \b
    A checkpoint of a recipe, merged first; or a LoRA adapter as it is:
      epgrpo merge runs/3b_epgrpo_seed1/checkpoints/global_step_1000 --out merged/3b_epgrpo_seed1
      epgrpo evaluate --model merged/3b_epgrpo_seed1 --data aime25.parquet --out runs/eval/epgrpo
      epgrpo evaluate --model Qwen/Qwen2.5-3B --lora my_adapter --data aime25.parquet --out runs/eval/adapter

    \b
    A trial without a GPU:
      epgrpo evaluate --model my_model --backend hf --limit 5 -n 2 --max-tokens 256 \\
          --data math500.parquet --out /tmp/trial

    \b
    What verl's own validation wrote (trainer.validation_data_dir):
      epgrpo evaluate --dump runs/3b_epgrpo_seed1/validation/1000.jsonl
    """
    console = Console(stderr=True)
    with messages(console, "epgrpo evaluate"):
        judge = graders.load_grader(grader, rel_tol, workers, deadline)
        if dump is not None:
            if model or data or more_data or lora or again:
                raise EvaluationError("--dump reads what there is: no --model, --lora, --data or --regrade with it")
            run = load_run(dump.expanduser())
        elif again:
            out = required(out, "--out").expanduser()
            with progress_bar(console, "grading") as on_start:
                changed = regrade(out, judge, rel_tol, workers, on_start)
            console.print(f"{changed} scores changed")
            run = load_run(out)
        else:
            if k and max(k) > n:
                raise EvaluationError(f"pass@{max(k)} is not available from --n {n}: give --n {max(k)} or more")
            out = required(out, "--out").expanduser()
            files = [path.expanduser() for path in required([*(data or ()), *(more_data or ())], "--data")]
            plan = Plan(
                out=out,
                model=open_model(required(model, "--model"), lora),
                sets=load_problems(files, limit),
                n=n,
                backend=choose_backend(backend),
                sampling=Sampling(temperature, top_p, top_k, max_tokens, seed),
                engine=Engine(dtype, device, batch_size, tensor_parallel, memory_share, max_num_seqs),
                grader=judge,
                rel_tol=rel_tol,
                workers=workers,
            )
            with progress_bar(console, "samples") as on_start:
                collect(plan, on_start)
            run = load_run(out, sets=plan.sets, n=n)
        _report(console, summarize(run, resamples), out, k, resamples)


T = TypeVar("T")


def required(value: T | None, option: str) -> T:
    """The value of an option that this use of the command cannot do without."""
    if not value:
        raise EvaluationError(f"{option} is missing; see epgrpo evaluate --help")
    return value


def table_ks(wanted: Sequence[int] | None, n: int) -> list[int]:
    """The k to show: those that are wanted, or 4 and n.

    Raises:
        EvaluationError: One of the wanted is above n.
    """
    if wanted and max(wanted) > n:
        raise EvaluationError(f"pass@{max(wanted)} is not available from {n} samples per problem")
    return sorted(set(wanted or (k for k in (4, n) if 1 < k <= n)))


def _report(console: Console, summary: Summary, out: Path | None, wanted: list[int] | None, resamples: int) -> None:
    ks = table_ks(wanted, min(numbers.n for numbers in summary.sets.values()))
    Console().print(show_run(summary, ks))
    if out is None:
        return
    out.mkdir(parents=True, exist_ok=True)
    (out / SUMMARY).write_text(json.dumps(as_json(summary, resamples), indent=2, ensure_ascii=False) + "\n", "utf-8")
    plot = plot_pass_at_k([summary], out / PLOT)
    console.print(f"written: {out / SUMMARY}, {plot}", markup=False, highlight=False, soft_wrap=True)
