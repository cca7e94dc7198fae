# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Tables and curves of the runs that are finished."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.table import Table

from benchmarks.learning import stats
from benchmarks.learning.arms import BASELINE, PRIMARY, STUDIES, TASKS, Task
from benchmarks.learning.compact import GRAD_NORM
from benchmarks.learning.compare import (
    ArmSummary,
    BaselineDifference,
    Difference,
    Seeds,
    common_seeds,
    last_steps,
    summarize,
    unequal_code,
    unequal_data,
    unequal_first_steps,
)
from benchmarks.learning.curves import plot
from benchmarks.learning.store import Stored, changed_settings, read, shared_settings

LEARNED = ("n", "final reward", "minus GRPO", "p", "area under the curve", "minus GRPO", "p", "area minus EP-GRPO")
"""Columns of the first table, behind the arm."""
HOW = (
    "steps to level",
    "held-out",
    "zero-variance groups",
    "recovered tokens",
    "s/step",
    "ref of a step",
    "adv of a step",
    "estimator of a step",
)
"""Columns of the second."""


TITLE = """# Learning runs, in full

Made by `python -m benchmarks.learning report`. `benchmarks/learning/README.md` says what each column is and how
the words are chosen.
"""


def load_results(folder: Path, task: str, arms: Sequence[str], seeds: int | None = None) -> dict[str, Seeds]:
    """Reads the finished runs of a task.

    Args:
        folder: The results folder.
        task: Name of the task.
        arms: Names of the arms that are wanted, in this order; those without a run are left out.
        seeds: Only seeds below this.
    """
    found: dict[str, Seeds] = {}
    for arm in arms:
        files = {int(file.stem.removeprefix("seed")): file for file in (folder / task / arm).glob("seed*.json")}
        if chosen := {seed: read(files[seed]) for seed in sorted(files) if seeds is None or seed < seeds}:
            found[arm] = chosen
    return found


def _interval(values: Sequence[float]) -> str:
    if len(values) < stats.MIN_SEEDS:
        return f"{np.mean(values):.3f}"
    low, high = stats.bootstrap_interval(values)
    return f"{np.mean(values):.3f} [{low:.3f}, {high:.3f}]"


def _mean_and_interval(difference: Difference | None) -> str:
    if difference is None:
        return ""
    interval = "" if difference.interval is None else " [{:+.3f}, {:+.3f}]".format(*difference.interval)
    return f"{difference.mean:+.3f}{interval}"


def _difference(difference: BaselineDifference | None) -> tuple[str, str]:
    if difference is None:
        return "", ""
    p = f"{difference.p:.3f}"
    if difference.p_adjusted != difference.p:
        p += f" ({difference.p_adjusted:.3f})"
    return f"{_mean_and_interval(difference)}: {difference.verdict}", p


def _reached(summary: ArmSummary) -> str:
    count = sum(step is not None for step in summary.reached)
    median = stats.median_steps(summary.reached)
    return f"{'not reached' if median is None else f'{median:g}'} ({count} of {len(summary.reached)})"


def learned(summary: ArmSummary) -> list[str]:
    """Writes what an arm learned as the cells below :data:`LEARNED`."""
    return [
        str(len(summary.seeds)),
        _interval(summary.final),
        *_difference(summary.final_difference),
        _interval(summary.area),
        *_difference(summary.area_difference),
        _mean_and_interval(summary.area_minus_primary),
    ]


def how(summary: ArmSummary) -> list[str]:
    """Writes how it got there as the cells below :data:`HOW`."""
    return [
        _reached(summary),
        _interval(summary.held_out),
        f"{summary.zero_variance:.0%}",
        "" if summary.recovered is None else f"{summary.recovered:.0%}",
        f"{summary.step_seconds:.2f}",
        "" if summary.ref_share is None else f"{summary.ref_share:.1%}",
        f"{summary.adv_share:.1%}",
        "" if summary.estimator_share is None else f"{summary.estimator_share:.2%}",
    ]


@dataclass(frozen=True)
class Comparison:
    """The arms of a study on a task.

    Attributes:
        task: The task.
        study: Name of the study.
        arms: Arm to seed to run, of the seeds that all arms have.
        left_out: Seeds that only some have.
        summaries: The rows of the table.
    """

    task: Task
    study: str
    arms: dict[str, Seeds]
    left_out: list[int]
    summaries: list[ArmSummary]

    @property
    def title(self) -> str:
        """Its heading."""
        return f"{self.task.name}: {self.study}"


def notes(found: Comparison) -> list[str]:
    """Says what a reader has to know about the numbers of a table."""
    runs = [run for seeds in found.arms.values() for run in seeds.values()]
    first = found.summaries[0]
    n = len(first.seeds)
    texts = [
        f"{runs[0].settings['steps']} steps. Final reward: mean of the last {last_steps(found.arms)} steps. "
        f"Steps to level: until the mean of as many steps is {found.task.level:g}, median over seeds.",
        f"In the first step {first.all_wrong_first:.0%} of the groups were all wrong ({first.arm}).",
        "Intervals: 95 %, percentile bootstrap over seeds, too narrow with so few; none with fewer than "
        f"{stats.MIN_SEEDS} seeds. p: exact two-sided sign-flip test of the differences to GRPO of the same seed; in "
        "brackets adjusted by Holm's method for the other arms tried.",
        f"With {n} paired seeds p cannot be below {stats.smallest_p(n):.3g}.",
    ]
    if seeds := unequal_data(found.arms):
        texts.append(
            f"WARNING: in seeds {_listed(seeds)} the arms had different initial models or problems: no fair pair."
        )
    if seeds := unequal_first_steps(found.arms):
        texts.append(f"In seeds {_listed(seeds)} the arms' rewards differ in the first step, before any update.")
    if seeds := unequal_code(found.arms):
        texts.append(f"In seeds {_listed(seeds)} the arms ran with different source or versions.")
    for name, seeds in found.arms.items():
        for seed, run in seeds.items():
            if missing := run.settings["steps"] - len(run.series.get(GRAD_NORM, {})):
                texts.append(f"In seed {seed} of {name} the gradient norm was no finite number in {missing} steps.")
    if found.left_out:
        texts.append(f"Seeds {_listed(found.left_out)} are left out: not all of these arms have them.")
    texts += [f"Runs with {text}." for text in provenance(runs)]
    return texts


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def provenance(runs: Sequence[Stored]) -> list[str]:
    """Lists the versions and machines that runs came from, one line each."""
    found: dict[tuple[str, str, str], dict[str, None]] = {}
    for run in runs:
        about = run.about
        packages = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
        machine = f"{about['machine']['cores']} cores, {about['machine']['architecture']}"
        key = (about["code"], packages, machine)
        found.setdefault(key, {})[about["commit"]] = None
    return [
        f"{packages}; {machine}; commit {', '.join(commits)}, source {code}"
        for (code, packages, machine), commits in found.items()
    ]


def _check(folder: Path, arms: dict[str, Seeds]) -> None:
    """Refuses runs of one task that differ in more than what belongs to their arm or their seed."""
    first: dict[str, object] = {}
    for name, seeds in arms.items():
        for seed, run in seeds.items():
            shared = shared_settings(run.settings)
            first = first or shared
            if changes := changed_settings(first, shared):
                raise ValueError(f"{folder}: {name}/seed{seed} cannot be compared with the rest: {'; '.join(changes)}")


def comparisons(folder: Path, seeds: int | None) -> Iterator[Comparison]:
    """Summarizes each study of each task that has GRPO and another arm with a common seed.

    Raises:
        ValueError: Runs of one task differ in more than their arm and seed.
    """
    for task in TASKS.values():
        for study, members in STUDIES.items():
            arms = load_results(folder, task.name, [arm.name for arm in members], seeds)
            _check(folder / task.name, arms)
            # GRPO and EP-GRPO are in every study; a table of these two alone belongs to the first.
            new = arms.keys() - {BASELINE, PRIMARY}
            common = common_seeds(arms)
            if BASELINE in common and len(common) > 1 and (new or study == "core"):
                left_out = {seed for found in arms.values() for seed in found} - common[BASELINE].keys()
                yield Comparison(task, study, common, sorted(left_out), summarize(common, task.level))


def as_markdown(title: str, summaries: Sequence[ArmSummary], texts: Sequence[str], picture: str) -> str:
    """Writes the two tables with their notes."""
    lines = [f"## {title}", ""]
    for header, cells in ((LEARNED, learned), (HOW, how)):
        lines += [f"| arm | {' | '.join(header)} |", f"|{' --- |' * (1 + len(header))}"]
        lines += [f"| {' | '.join([summary.arm, *cells(summary)])} |" for summary in summaries]
        lines.append("")
    return "\n".join([*lines, *(f"- {text}" for text in texts), "", f"![Learning curves]({picture})", ""])


def as_terminal_table(title: str, summaries: Sequence[ArmSummary], texts: Sequence[str]) -> Table:
    """Lays a table out for a terminal: one column per arm, since there are many numbers."""
    table = Table(title=title, title_justify="left", caption="\n".join(texts), caption_justify="left")
    table.add_column("")
    for summary in summaries:
        table.add_column(summary.arm, overflow="fold")
    columns = [learned(summary) + how(summary) for summary in summaries]
    for name, *cells in zip(LEARNED + HOW, *columns, strict=True):
        table.add_row(name, *cells)
    return table


def write_report(folder: Path, out: Path, seeds: int | None = None) -> tuple[list[Table], list[Path]]:
    """Writes learning.md, learning.json and a picture per table.

    Args:
        folder: The results folder.
        out: Where to write.
        seeds: Only seeds below this.

    Returns:
        The tables for a terminal, and the files.

    Raises:
        FileNotFoundError: There is nothing to compare yet.
        ValueError: The runs of a task cannot be compared.
    """
    shown, texts, numbers, files = [], [], {}, []
    for found in comparisons(folder, seeds):
        below = notes(found)
        picture = plot(found.arms, found.title, out / f"{found.task.name}-{found.study}.png")
        files.append(picture)
        shown.append(as_terminal_table(found.title, found.summaries, below))
        texts.append(as_markdown(found.title, found.summaries, below, picture.name))
        numbers[f"{found.task.name}/{found.study}"] = {"arms": list(map(asdict, found.summaries)), "notes": below}
    if not shown:
        raise FileNotFoundError(f"{folder} holds no finished run of {BASELINE} with another arm of the same task")
    written = {"learning.md": "\n".join([TITLE, *texts]), "learning.json": json.dumps(numbers, indent=1) + "\n"}
    for file, text in written.items():
        (out / file).write_text(text)
        files.append(out / file)
    return shown, files
