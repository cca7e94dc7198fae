# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The steps from a published file to a prepared one."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epgrpo_verl import __version__

from . import filters
from .errors import PrepareError
from .files import check_file, fetch, read_rows
from .filters import Dropped, Progress
from .problems import Problem, golds_digest, read_problem
from .prompt import INSTRUCTION, token_counter
from .sources import BENCHMARKS, TRAIN_DIFFICULTY_MODEL, Source
from .write import rows_digest, verl_rows, write_all

DEFAULT_MODEL = "Qwen/Qwen2.5-3B"

Steps = Callable[[str, int], AbstractContextManager[Progress]]
"""Shows a step with a title and a total while its context is open; what it gives is told how many more are done."""


@contextmanager
def silent_steps(title: str, total: int) -> Iterator[Progress]:
    """Shows nothing."""
    yield lambda done: None


@dataclass(frozen=True)
class Options:
    """What can be set for a preparation.

    Attributes:
        out: Folder of the prepared files.
        file: A local copy of the published file; None downloads it.
        revision: Another commit of the data set than the pinned one. Its file then has no expected checksum.
        sha256: The checksum that the file must have, in place of the pinned one.
        rows: The number of rows that the file must have, in place of the published one; then the answers are not
            compared with the known list.
        model: Whose tokenizer and chat template count prompt tokens. None: `DEFAULT_MODEL` for Skywork, no count for
            the others.
        max_prompt_tokens: The longest prompt.
        limit: Training rows to keep after shuffling; None keeps all.
        seed: Of the shuffle.
        difficulty: Fewest and most failures of 16 for Skywork, both included.
        benchmarks: Folder of the prepared benchmarks that training data must not contain; None is ``out``.
        decontaminate: Whether to drop training problems that are in a benchmark.
    """

    out: Path
    file: Path | None = None
    revision: str | None = None
    sha256: str | None = None
    rows: int | None = None
    model: str | None = None
    max_prompt_tokens: int = 1024
    limit: int | None = 8000
    seed: int = 42
    difficulty: tuple[int, int] = (1, 15)
    benchmarks: Path | None = None
    decontaminate: bool = True


@dataclass
class Report:
    """What a preparation did.

    Attributes:
        source: What was prepared.
        path: The parquet file.
        rows_in: Rows of the published file.
        rows_out: Rows written.
        repaired: Problems with repairs.
        dropped: Number of problems dropped by each rule, in the order of the rules.
        notes: What the user should know.
    """

    source: Source
    path: Path
    rows_in: int
    rows_out: int
    repaired: list[Problem]
    dropped: dict[str, int]
    notes: list[str] = field(default_factory=list)


def prepare(source: Source, options: Options, steps: Steps = silent_steps) -> Report:
    """Prepare one source.

    Raises:
        PrepareError: Anything is not as it must be. Nothing has been written then.
    """
    notes: list[str] = []
    path, checked = _get_file(source, options, notes)
    rows = read_rows(path)
    expected = source.rows if options.rows is None else options.rows
    if len(rows) != expected:
        raise PrepareError(
            f"{path} has {len(rows)} rows, {source.name} has {expected}: it is another set, or a part of this one. "
            f"Use the file {source.url()}, or pass --rows {len(rows)} if this is what you want."
        )
    with steps(f"{source.name}: reading", len(rows)) as progress:
        problems = []
        for index, row in enumerate(rows):
            problems.append(read_problem(source, index, row))
            progress(1)
    _check_golds(source, problems, options, notes)
    repaired = [problem for problem in problems if problem.repairs]
    if source.benchmark:
        _check_benchmark(source, problems, options, steps)
        kept, dropped = problems, []
    else:
        kept, dropped = _filter_training(source, problems, options, steps)
        if options.limit is not None and len(kept) < options.limit:
            notes.append(f"only {len(kept)} problems are left, fewer than the {options.limit} asked for")
    written = verl_rows(source, kept)
    counts = dict(Counter(item.rule for item in dropped))
    manifest = {
        "name": source.name,
        "epgrpo_verl": __version__,
        "source": checked,
        "settings": _settings(source, options),
        "rows_in": len(rows),
        "rows_out": len(written),
        "dropped": counts,
        "repaired": [{"id": problem.id, "index": problem.index, "repairs": problem.repairs} for problem in repaired],
        "notes": notes,
        "rows_sha256": rows_digest(written),
        "ids": [problem.id for problem in kept],
    }
    target = write_all(options.out, source.name, written, manifest, dropped)
    return Report(source, target, len(rows), len(written), repaired, counts, notes)


def _get_file(source: Source, options: Options, notes: list[str]) -> tuple[Path, dict[str, Any]]:
    revision = options.revision or source.revision
    pinned = source.sha256 if revision == source.revision else None
    path = options.file or fetch(source, revision)
    if not path.is_file():
        raise PrepareError(f"there is no file {path}")
    expected = options.sha256 or pinned
    checked = check_file(source, path, expected)
    if expected is None:
        notes.append(f"no checksum to compare with; met sha256 {checked['sha256']} (make it a condition with --sha256)")
    origin = {"repo": source.repo, "revision": revision, "file": source.file}
    if options.file is not None:
        origin = {"local_file": path.name, "of": source.repo}
    return path, origin | checked


def _check_golds(source: Source, problems: Sequence[Problem], options: Options, notes: list[str]) -> None:
    if source.golds_sha256 is None:
        return
    if options.rows is not None:
        notes.append("a part of the set: its answers were not compared with the known list")
    elif golds_digest(problems) != source.golds_sha256:
        raise PrepareError(
            f"the {len(problems)} answers are not the known ones of {source.name}: this copy has wrong or differently "
            f"written answers. Use {source.url()}, or pass --rows {len(problems)} to take them as they are."
        )


def _check_benchmark(source: Source, problems: Sequence[Problem], options: Options, steps: Steps) -> None:
    """A benchmark is taken whole: whatever would drop a row is an error."""
    with steps(f"{source.name}: checking answers", len(problems)) as progress:
        faults = filters.drop_bad_golds(problems, progress)[1]
    if options.model is not None:
        with steps(f"{source.name}: counting tokens", len(problems)) as progress:
            faults += filters.drop_long(problems, token_counter(options.model), options.max_prompt_tokens, progress)[1]
    if faults:
        shown = "; ".join(f"{fault.id}: {fault.rule} ({fault.detail})" for fault in faults[:5])
        raise PrepareError(
            f"{source.name} is a benchmark, of which no row may be dropped, but {len(faults)} cannot be used: {shown}"
        )


def _filter_training(
    source: Source, problems: list[Problem], options: Options, steps: Steps
) -> tuple[list[Problem], list[Dropped]]:
    model = options.model or (DEFAULT_MODEL if source.name == "skywork" else None)
    # What may fail comes before what takes long.
    count = None if model is None else token_counter(model)
    benchmarks = list(_benchmark_problems(options)) if options.decontaminate else []
    dropped: list[Dropped] = []

    def apply(outcome: tuple[list[Problem], list[Dropped]]) -> None:
        nonlocal problems
        problems = outcome[0]
        dropped.extend(outcome[1])

    apply(filters.drop_duplicates(problems))
    if source.name == "skywork":
        apply(filters.drop_difficulty(problems, *options.difficulty))
    apply(filters.drop_several_golds(problems))
    if options.decontaminate:
        apply(filters.drop_benchmarks(problems, benchmarks))
    if count is not None:
        with steps(f"{source.name}: counting tokens", len(problems)) as progress:
            apply(filters.drop_long(problems, count, options.max_prompt_tokens, progress))
    with steps(f"{source.name}: checking answers", len(problems)) as progress:
        apply(filters.drop_bad_golds(problems, progress))
    if not problems:
        raise PrepareError(f"no problem of {source.name} is left: {dict(Counter(item.rule for item in dropped))}")
    random.Random(options.seed).shuffle(problems)
    rest = problems[options.limit :] if options.limit is not None else []
    dropped += [Dropped(problem.id, "beyond the limit", f"shuffled behind row {options.limit}") for problem in rest]
    return problems[: options.limit], dropped


def _benchmark_problems(options: Options) -> Iterator[tuple[str, str]]:
    folder = options.benchmarks or options.out
    missing = [name for name in BENCHMARKS if not (folder / f"{name}.parquet").is_file()]
    if missing:
        raise PrepareError(
            f"training data must not contain the benchmarks, and {', '.join(missing)} are not in {folder}. First run "
            f"'epgrpo prepare {' '.join(missing)} --out {folder}', or pass --no-decontaminate."
        )
    for name in BENCHMARKS:
        for row in read_rows(folder / f"{name}.parquet"):
            yield f"{name} {row['extra_info']['id']}", row["extra_info"]["problem"]


def _settings(source: Source, options: Options) -> dict[str, Any]:
    settings: dict[str, Any] = {"instruction": INSTRUCTION, "model": options.model}
    if options.model is not None or source.name == "skywork":
        settings |= {"model": options.model or DEFAULT_MODEL, "max_prompt_tokens": options.max_prompt_tokens}
    if source.benchmark:
        return settings
    settings |= {"limit": options.limit, "seed": options.seed}
    if options.decontaminate:
        settings |= {"benchmarks": list(BENCHMARKS), "ngram": filters.NGRAM}
    if source.name == "skywork":
        settings |= {"difficulty": list(options.difficulty), "difficulty_model": TRAIN_DIFFICULTY_MODEL}
    return settings
