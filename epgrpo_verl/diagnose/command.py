# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""``epgrpo diagnose``: the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from epgrpo_verl.evaluation import grader as graders
from epgrpo_verl.evaluation.backend import Engine, Sampling
from epgrpo_verl.evaluation.errors import EvaluationError
from epgrpo_verl.evaluation.model import open_model
from epgrpo_verl.evaluation.problems import load_problems
from epgrpo_verl.evaluation.settings import versions
from epgrpo_verl.evaluation.terminal import messages, progress_bar

from .collect import SAMPLES, Plan
from .diagnosis import Diagnosis, ModelDiagnosis, diagnosis_json
from .measure import diagnose_labels, diagnose_model
from .plot import plot_diagnosis
from .ratio import RESAMPLES
from .steps import StepSource, label_source, load_checker, read_label_lines
from .table import show
from .traces import diagnose_trace
from .zero_variance import ZeroVariance, run_zero_variance

DIAGNOSIS, PLOT = "diagnosis.json", "diagnosis.png"

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command("diagnose", no_args_is_help=True)
def diagnose_command(
    more_data: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="More files for --data.", show_default=False)
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="A Hugging Face folder, or a name on the hub.", show_default=False)
    ] = None,
    lora: Annotated[str | None, typer.Option(help="Folder of a PEFT adapter for --model.", show_default=False)] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE...", help="Problems as epgrpo prepare writes them.", show_default=False),
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Token traces of a training (trace_dir).", show_default=False)
    ] = None,
    run: Annotated[
        list[str] | None,
        typer.Option(metavar="[NAME=]RUN", help="Logs of a training; repeatable.", show_default=False),
    ] = None,
    steps: Annotated[
        str | None, typer.Option(metavar="MODULE:FUNCTION", help="Finds and checks steps.", show_default=False)
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Steps by hand: a labelled samples.jsonl.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for numbers, picture and samples.", show_default=False)
    ] = None,
    n: Annotated[int, typer.Option("--n", "-n", min=1, help="Samples per problem, the size of a group.")] = 8,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only the first problems of each set.", show_default=False)
    ] = None,
    temperature: Annotated[float, typer.Option(help="That of the training's rollout.")] = Sampling.temperature,
    max_tokens: Annotated[int, typer.Option(help="Longest response.")] = Sampling.max_tokens,
    seed: Annotated[int, typer.Option(help="Of samples, positions and replacements.")] = Sampling.seed,
    perturb: Annotated[bool, typer.Option(help="Measure perturbation, which samples four more branches.")] = True,
    dtype: Annotated[
        Literal["auto", "bfloat16", "float16", "float32"], typer.Option(help="auto: that of the model's files.")
    ] = "auto",
    device: Annotated[str, typer.Option(help="cpu, cuda, ...; auto takes cuda where there is one.")] = "auto",
    batch_size: Annotated[int, typer.Option(min=1, help="Responses generated together.")] = Engine.batch_size,
    grader: Annotated[
        str, typer.Option(metavar="MODULE:FUNCTION", help="A reward function as verl calls it, giving 1 or 0.")
    ] = graders.OWN,
    workers: Annotated[int, typer.Option(min=1, help="Processes that grade.")] = 2,
    resamples: Annotated[int, typer.Option(min=100, help="Bootstrap draws for the intervals.")] = RESAMPLES,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the samples that are in --out.")] = False,
) -> None:
    """Measure the paper's three failures of GRPO on your own model, data and runs, the paper's figures beside.

    --model with --data samples responses and measures: how much of the entropy the top fifth of the tokens hold; the
    accuracy lost when a token of high or of low entropy is replaced; and, where steps can be checked (--steps) or are
    labelled (--labels), how many right steps GRPO punishes and how many wrong ones are in winning responses. --trace
    gives the same from a training with EP-GRPO, for GRPO's and for EP-GRPO's advantages. --run gives the share of
    groups with equal rewards over a training. They can be combined.

    --steps is called with the prompt as the model got it and the response's text, and returns steps with start, end
    (characters of the response) and right. --out gets diagnosis.json, diagnosis.png and samples.jsonl.

    Examples:

    \b
    The quickstart's model and data, whose steps can be checked; a CPU does (recipes/run_cpu_quickstart.sh made them):
      DATA=runs/data/cpu_quickstart-easy-seed0
      epgrpo diagnose --model $DATA/model --data $DATA/test.parquet --max-tokens 24 --out runs/diagnosis \\
          --grader epgrpo_verl.quickstart.task:compute_score --steps epgrpo_verl.quickstart.task:find_steps

    \b
    Your own model on a GPU, 100 problems, with this project's grader for math:
      epgrpo diagnose --model Qwen/Qwen2.5-3B --data ~/data/epgrpo/math500.parquet --limit 100 --out runs/diagnosis

    \b
    Label its steps by hand: put a list of {"start": 0, "end": 9, "right": true} into "steps" of each line, then
      epgrpo diagnose --labels runs/diagnosis/samples.jsonl

    \b
    A training with EP-GRPO: the credit of its steps from a trace, and its zero-variance groups from its logs:
      epgrpo diagnose --trace runs/trace --steps epgrpo_verl.quickstart.task:find_steps
      epgrpo diagnose --run hf=runs/cpu_quickstart-easy-ep_grpo-hf-seed0 --out runs/diagnosis_of_run
    """
    console = Console(stderr=True)
    with messages(console, "epgrpo diagnose", "stopped; nothing goes on from here, start it again."):
        files = [path.expanduser() for path in (*(data or ()), *(more_data or ()))]
        if files and model is None:
            raise EvaluationError("--data needs --model: which model is to answer these problems?")
        if model is None and trace is None and not run and labels is None:
            raise EvaluationError("nothing to diagnose: give --model with --data, --trace, --run or --labels")
        if steps is not None and model is None and trace is None:
            raise EvaluationError("--steps needs responses: give --model with --data, or --trace")
        source, records = _steps(steps, labels)
        settings: dict[str, Any] = {}
        found: ModelDiagnosis | None = None
        if model is not None:
            if not files:
                raise EvaluationError("--model needs --data: problems as epgrpo prepare writes them")
            if source is not None and n < 2:
                raise EvaluationError("-n 1 makes no group: polarity compares responses, so give -n 2 or more")
            folder = _folder(out, labels, overwrite)
            plan = Plan(
                model=open_model(model, lora),
                problems=[problem for part in load_problems(files, limit).values() for problem in part],
                n=n,
                sampling=Sampling(temperature, max_tokens=max_tokens, seed=seed),
                engine=Engine(dtype, device, batch_size),
                grader=graders.load_grader(grader, workers=workers),
                workers=workers,
            )
            settings.update(_settings(plan, files))
            folder.mkdir(parents=True, exist_ok=True)
            found = diagnose_model(plan, folder, source, perturb, partial(progress_bar, console), resamples)
        elif trace is None and records:
            found = diagnose_labels(records, resamples)
        for name, value in (("trace", trace), ("steps", steps), ("labels", labels)):
            if value is not None:
                settings[name] = str(value)
        of_trace = None
        if trace is not None:
            of_trace = diagnose_trace(trace.expanduser(), source, resamples)
        of_runs, missing = _runs(run or ())
        diagnosis = Diagnosis(settings, found, of_trace, of_runs, missing)
        Console().print(show(diagnosis))
        if out is not None:
            _write(console, diagnosis, out.expanduser())
        if missing and found is None and of_trace is None and not of_runs:
            raise typer.Exit(1)


def _steps(steps: str | None, labels: Path | None) -> tuple[StepSource | None, list[dict[str, Any]]]:
    if steps is not None and labels is not None:
        raise EvaluationError("--steps and --labels both say which steps are right: give one of them")
    if steps is not None:
        return load_checker(steps), []
    if labels is None:
        return None, []
    records = read_label_lines(labels.expanduser())
    return label_source(records, labels), records


def _folder(out: Path | None, labels: Path | None, overwrite: bool) -> Path:
    if out is None:
        raise EvaluationError("--model needs --out: a folder for the samples, the numbers and the picture")
    file = out.expanduser() / SAMPLES
    if file.exists():
        if labels is not None and labels.expanduser().resolve() == file.resolve():
            raise EvaluationError(
                f"--labels {labels} would be overwritten: leave --model and --data out to measure its samples, or give "
                "another --out"
            )
        if not overwrite:
            raise EvaluationError(
                f"{file} is there, and could hold labels: give another --out, or --overwrite to replace it"
            )
    return out.expanduser()


def _settings(plan: Plan, files: Sequence[Path]) -> dict[str, Any]:
    found = {
        "model": f"{plan.model.name} ({plan.model.fingerprint})",
        "LoRA": plan.model.adapter_name,
        "data": ", ".join(map(str, files)),
        "problems": len(plan.problems),
        "n": plan.n,
        "temperature": plan.sampling.temperature,
        "max_tokens": plan.sampling.max_tokens,
        "seed": plan.sampling.seed,
        "grader": plan.grader.name,
        "versions": ", ".join(f"{name} {version}" for name, version in versions("hf").items()),
    }
    return {name: value for name, value in found.items() if value is not None}


def _runs(given: Sequence[str]) -> tuple[dict[str, ZeroVariance], dict[str, str]]:
    found: dict[str, ZeroVariance] = {}
    missing: dict[str, str] = {}
    for one in given:
        before, equals, after = one.partition("=")
        path = Path(after if equals else before).expanduser()
        name = before if equals else path.resolve().name
        if name in found or name in missing:
            raise EvaluationError(f"--run: two runs are called {name}: name them, as --run NAME={path}")
        try:
            found[name] = run_zero_variance(path)
        except EvaluationError as error:
            missing[name] = str(error)
    return found, missing


def _write(console: Console, diagnosis: Diagnosis, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(diagnosis_json(diagnosis), indent=2, ensure_ascii=False, allow_nan=False)
    (out / DIAGNOSIS).write_text(text + "\n", encoding="utf-8")
    written = [str(out / DIAGNOSIS)]
    if diagnosis.model is not None or diagnosis.trace is not None or diagnosis.runs:
        written.append(str(plot_diagnosis(diagnosis, out / PLOT)))
    if diagnosis.settings.get("model"):
        written.append(str(out / SAMPLES))
    console.print(f"written: {', '.join(written)}", markup=False, highlight=False, soft_wrap=True)
