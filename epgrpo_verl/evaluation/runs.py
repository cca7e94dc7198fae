# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs as they are summarised and compared, whether they come from `epgrpo evaluate` or from verl's validation."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epgrpo_verl.grading.extract import last_box

from .dump import read_dump
from .errors import EvaluationError
from .grader import OWN
from .outcome import Answers, Outcome
from .problems import prompt_digest
from .store import SETTINGS, Store


@dataclass(frozen=True)
class Run:
    """The outcomes of one run.

    Attributes:
        name: What it is called in tables and plots.
        sets: Set to its problems.
        header: How the samples were made, by the names that are shown; empty where it is not known.
        notes: What a reader has to know.
    """

    name: str
    sets: Mapping[str, list[Answers]]
    header: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def load_run(path: Path, name: str | None = None, sets: Collection[str] | None = None, n: int | None = None) -> Run:
    """Load a run.

    Args:
        path: Folder that ``epgrpo evaluate`` wrote, or a file of verl's ``trainer.validation_data_dir``.
        name: What to call it; its file or folder name if None.
        sets: Only these sets; all if None. For a folder.
        n: Samples per problem; what each set was last started with if None. For a folder.

    Raises:
        EvaluationError: It is neither, or the run is not complete.
    """
    if path.is_dir() and (path / SETTINGS).is_file():
        return _stored_run(path, name or path.resolve().name, sets, n)
    if path.is_dir():
        dumps = sorted((file for file in path.glob("*.jsonl") if file.stem.isdigit()), key=lambda file: int(file.stem))
        if dumps:
            files = ", ".join(file.name for file in dumps)
            raise EvaluationError(f"{path} has the validation of several steps: name one file of {files}")
        raise EvaluationError(f"{path} is no run of epgrpo evaluate: it has no {SETTINGS}")
    if not path.is_file():
        raise EvaluationError(f"there is no {path}")
    read, notes = read_dump(path)
    return Run(name or f"{path.resolve().parent.name}/{path.stem}", read, {"from": f"verl's validation, {path}"}, notes)


def _stored_run(path: Path, name: str, sets: Collection[str] | None, n: int | None) -> Run:
    store = Store(path)
    settings = store.settings() or {}
    fixed = settings["fixed"]
    sizes = {set_name: n or entry["n"] for set_name, entry in settings["sets"].items()}
    samples = store.samples()
    answers: dict[str, list[Answers]] = {}
    missing = total = 0
    for problem in store.problems():
        if sets is not None and problem.set not in sets:
            continue
        outcomes = []
        for index in range(sizes[problem.set]):
            total += 1
            sample = samples.get((problem.set, problem.id, index))
            if sample is None:
                missing += 1
                continue
            boxed = last_box(sample.response).content is not None if fixed["grader"] == OWN else None
            cut = sample.finish_reason == "length"
            outcomes.append(Outcome(sample.score == 1.0, sample.grader_error, boxed, cut, sample.tokens))
        digest = prompt_digest(problem.prompt, problem.ground_truth)
        answers.setdefault(problem.set, []).append(Answers(problem.id, digest, tuple(outcomes)))
    wanted = set(sizes if sets is None else sets)
    if missing or not total or wanted != set(answers):
        raise EvaluationError(
            f"{path} is not complete: {missing} of {total} samples are missing. "
            "Start the command that made it again, and it goes on."
        )
    numbers = sorted({sizes[set_name] for set_name in answers})
    return Run(name, answers, _header(settings, ", ".join(map(str, numbers))), _version_notes(settings))


def _header(settings: Mapping[str, Any], n: str) -> dict[str, Any]:
    fixed = settings["fixed"]
    header = {
        "model": f"{settings['model']} ({fixed['model']})",
        "LoRA": f"{settings['lora']} ({fixed['lora']})" if settings["lora"] else None,
        "n": n,
        **{key: fixed[key] for key in ("temperature", "top_p", "top_k", "max_tokens", "seed")},
        "backend": f"{fixed['backend']}, dtype {fixed['dtype']}",
        "chat template": f"sha256 {fixed['chat template']}, end tokens {fixed['end tokens']}",
        "grader": fixed["grader"] if fixed["rel_tol"] is None else f"{fixed['grader']}, rel_tol {fixed['rel_tol']}",
        "versions": ", ".join(f"{key} {value}" for key, value in settings["sessions"][-1]["versions"].items()),
    }
    return {key: value for key, value in header.items() if value is not None}


def _version_notes(settings: Mapping[str, Any]) -> tuple[str, ...]:
    notes = []
    for before, after in zip(settings["sessions"], settings["sessions"][1:], strict=False):
        changed = [
            f"{key} {before['versions'].get(key)} to {value}"
            for key, value in after["versions"].items()
            if before["versions"].get(key) != value
        ]
        if changed:
            notes.append(f"versions changed while the run was made ({after['started']}): {', '.join(changed)}")
    return tuple(notes)
