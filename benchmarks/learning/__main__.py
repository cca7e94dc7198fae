# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Command line of the learning benchmark: ``python -m benchmarks.learning --help``, from the root of the checkout."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.learning.arms import ARMS, STUDIES, TASKS, Arm, Task, arms_of, grid
from benchmarks.learning.commands import ROOT, as_shell, folders

TaskName = Enum("TaskName", {name: name for name in TASKS}, type=str)
Study = Enum("Study", {name: name for name in STUDIES}, type=str)

RESULTS = ROOT / "benchmarks" / "learning" / "results"
WORK = ROOT / "runs" / "learning"

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Does EP-GRPO learn faster than GRPO, and which part of it does?

    Real trainings of verl on a CPU, with several seeds. All arms of a seed share the initial model, the order of the
    problems, the seeds of the rollouts, and the budget.

    [bold]Order of use[/bold]: [cyan]list[/cyan] shows what can be compared, [cyan]run --dry-run[/cyan] shows the
    commands and the hours that they take, [cyan]run[/cyan] does them (Ctrl-C, and the same command again to go on),
    [cyan]report[/cyan] makes tables and curves from what is finished so far.
    """,
)
console = Console()


def _out(text: str, style: str = "") -> None:
    console.print(text, highlight=False, soft_wrap=True, markup=False, style=style)


def _fail(text: str, code: int = 2) -> typer.Exit:
    _out(text, style="red")
    return typer.Exit(code)


def _tasks(names: list[TaskName], steps: int | None) -> list[Task]:
    tasks = [TASKS[name.value] for name in dict.fromkeys(names)]
    return [replace(task, steps=steps) for task in tasks] if steps else tasks


def _arms(studies: list[Study], names: list[str]) -> list[Arm]:
    if unknown := [name for name in names if name not in ARMS]:
        raise _fail(f"--arm {unknown[0]}: not one of {', '.join(ARMS)}")
    return [ARMS[name] for name in dict.fromkeys(names)] if names else arms_of(study.value for study in studies)


@app.command("list")
def list_() -> None:
    """Show the tasks, the studies and their arms."""
    tasks = Table("task", "what", "recipe", "steps", title="Tasks", title_justify="left")
    for task in TASKS.values():
        tasks.add_row(task.name, task.help, task.recipe, str(task.steps))
    arms = Table("study", "arm", "differs from GRPO of the same seed by", title="Studies", title_justify="left")
    for study, members in STUDIES.items():
        for arm in members:
            lr = [f"learning rate x {arm.lr_factor:g}"] if arm.lr_factor != 1 else []
            estimator = [f"adv_estimator={arm.estimator}"] if arm.estimator != "grpo" else []
            arms.add_row(study, arm.name, " ".join([*estimator, *arm.overrides, *lr]) or "nothing")
        arms.add_section()
    console.print(tasks, arms)


@app.command()
def run(
    task: Annotated[list[TaskName], typer.Option(help="Task; may be given several times.")] = (
        TaskName.easy,
        TaskName.hard,
    ),
    study: Annotated[list[Study], typer.Option(help="Study; may be given several times. See [cyan]list[/cyan].")] = (
        Study.core,
    ),
    arm: Annotated[list[str], typer.Option(help="Only these arms, instead of those of a study.")] = (),
    seeds: Annotated[int, typer.Option(help="Number of seeds. Below 6 the paired test cannot reach 0.05.", min=1)] = 8,
    first_seed: Annotated[int, typer.Option(help="The first seed.", min=0)] = 0,
    steps: Annotated[int | None, typer.Option(help="Steps of each run, instead of the task's.", min=1)] = None,
    jobs: Annotated[int, typer.Option(help="Runs at a time. The tiny model's use one core each.", min=1)] = 1,
    results: Annotated[Path, typer.Option(help="Folder that gets two small files per finished run.")] = RESULTS,
    work: Annotated[Path, typer.Option(help="Folder for models, data and logs. May be deleted afterwards.")] = WORK,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show commands and hours, and run nothing.")] = False,
) -> None:
    """Do the runs that are not in the results folder yet.

    Seed 0 of all arms comes first, then seed 1, so that an unfinished grid is balanced too. Ctrl-C ends the current
    runs in good order; the same command goes on later. A run that broke is done again from its start. Runs that are
    stored with other settings are never mixed in: the command stops and says what changed.

    The runs use the Python that runs this command. [cyan]bash recipes/run_cpu_quickstart.sh[/cyan] makes one with
    everything: [cyan].venv-cpu/bin/python[/cyan].
    """
    from benchmarks.learning.display import GridDisplay
    from benchmarks.learning.grid import Estimate, alone, hours, pending
    from benchmarks.learning.schedule import run_all
    from benchmarks.learning.store import ChangedSettings, Store

    results, work = results.resolve(), work.resolve()
    store = Store(results)
    runs = grid(_tasks(task, steps), _arms(study, arm), range(first_seed, first_seed + seeds))
    try:
        todo = pending(runs, store, work)
    except (ChangedSettings, RuntimeError) as error:
        raise _fail(f"error: {error}") from None
    estimate = Estimate(store, runs)
    if dry_run:
        for job in todo:
            _out(as_shell(job.run, folders(work, job.run)))
    counts = f"{len(runs)} runs, {len(runs) - len(todo)} done, {len(todo)} to do"
    if todo:
        counts += f": about {hours(estimate.left([], [job.run for job in todo], jobs))} with --jobs {jobs}"
    _out(counts)
    if dry_run or not todo:
        return
    try:
        with (
            alone(work, "--work"),
            alone(results, "--results"),
            GridDisplay(console, estimate, len(runs) - len(todo), len(runs), jobs) as display,
        ):
            outcome = run_all(todo, jobs, display)
    except RuntimeError as error:
        raise _fail(f"error: {error}") from None
    if outcome.interrupted:
        _out("Interrupted. The same command goes on; the runs that were under way start again.")
        raise typer.Exit(130)
    if outcome.failed:
        names = ", ".join(str(job.run) for job, _ in outcome.failed)
        stopped = "Stopped, since several runs failed one after the other. " if outcome.given_up else ""
        raise _fail(f"{stopped}Not finished: {names}. The same command tries them again.", 1)


@app.command()
def report(
    results: Annotated[Path, typer.Option(help="Folder of finished runs.")] = RESULTS,
    out: Annotated[Path | None, typer.Option(help="Folder for tables and curves; default: the results folder.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Only the first so many seeds.", min=1)] = None,
) -> None:
    """Make the tables (Markdown and JSON) and the curves (PNG) from the finished runs.

    Every difference is paired with GRPO of the same seed. Unfinished grids can be reported: n says how many seeds
    there are.
    """
    from benchmarks.learning.report import write_report

    try:
        tables, files = write_report(results, out or results, seeds)
    except (FileNotFoundError, ValueError) as error:
        raise _fail(f"error: {error}") from None
    for table in tables:
        console.print(table)
    for file in files:
        _out(f"wrote {file}")


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.learning")
