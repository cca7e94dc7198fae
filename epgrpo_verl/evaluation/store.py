# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The folder of a run: settings, problems and every sample, in files that a killed run leaves usable.

``settings.json`` is written first, ``problems.jsonl`` next, and ``samples.jsonl`` grows by a line per graded sample.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .errors import EvaluationError

FORMAT = 1
SETTINGS, PROBLEMS, SAMPLES, LOCK = "settings.json", "problems.jsonl", "samples.jsonl", ".lock"

Key = tuple[str, str, int]
"""Set, problem, number of the sample."""


@dataclass(frozen=True)
class Sample:
    """One graded response, as a line of ``samples.jsonl``.

    Attributes:
        set: Set of the problem.
        id: Name of the problem in it.
        sample: Number of the sample, from 0.
        seed: The seed it was drawn with.
        response: Its text, without special tokens.
        tokens: Its length, with the end token.
        finish_reason: ``stop``, or ``length`` where it was cut off.
        score: 1.0 where the answer is right, else 0.0.
        pred: The answer, as the grader reads it.
        reason: Why the grader decided so.
        grader_error: Whether the grader failed, so that the answer may as well be right.
    """

    set: str
    id: str
    sample: int
    seed: int
    response: str
    tokens: int
    finish_reason: str
    score: float
    pred: str
    reason: str
    grader_error: bool

    @property
    def key(self) -> Key:
        """What names the sample."""
        return self.set, self.id, self.sample


@dataclass(frozen=True)
class StoredProblem:
    """A problem as a line of ``problems.jsonl``: what it takes to grade again and to compare runs.

    Attributes:
        set: Its set.
        id: Its name in it.
        prompt: The rendered prompt, without special tokens.
        prompt_tokens: Its length.
        ground_truth: The answer.
    """

    set: str
    id: str
    prompt: str
    prompt_tokens: int
    ground_truth: str


class Store:
    """Reads and writes a run's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def settings(self) -> dict[str, Any] | None:
        """What the run was started with, or None for a new one.

        Raises:
            EvaluationError: There are samples of unknown settings, or of another format.
        """
        path = self.folder / SETTINGS
        if not path.is_file():
            if (self.folder / SAMPLES).exists():
                raise EvaluationError(f"{self.folder} has samples but no {SETTINGS}: give another --out")
            return None
        try:
            settings = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise EvaluationError(f"{path} cannot be read: {error}") from error
        if settings.get("format") != FORMAT:
            raise EvaluationError(f"{path} has the format {settings.get('format')}, this version reads {FORMAT}")
        return settings

    def write_settings(self, settings: Mapping[str, Any]) -> None:
        """Replace ``settings.json``."""
        self._replace(SETTINGS, json.dumps({"format": FORMAT, **settings}, indent=2, ensure_ascii=False) + "\n")

    def problems(self) -> list[StoredProblem]:
        """The problems of all sets that the run has had so far."""
        return [StoredProblem(**row) for _, row in self._rows(PROBLEMS)]

    def write_problems(self, problems: Iterable[StoredProblem]) -> None:
        """Replace ``problems.jsonl``."""
        self._replace(PROBLEMS, "".join(_line(problem) for problem in problems))

    def samples(self) -> dict[Key, Sample]:
        """All samples, those of a last line that was cut off left out.

        Raises:
            EvaluationError: Another line is no sample, or a sample is there twice.
        """
        samples: dict[Key, Sample] = {}
        for number, row in self._rows(SAMPLES):
            try:
                sample = Sample(**row)
            except TypeError as error:
                raise EvaluationError(f"{self.folder / SAMPLES}, line {number}: no sample ({error})") from error
            if sample.key in samples:
                raise EvaluationError(
                    f"{self.folder / SAMPLES}, line {number}: sample {sample.key} is there twice. Delete one of them."
                )
            samples[sample.key] = sample
        return samples

    def replace_samples(self, samples: Iterable[Sample]) -> None:
        """Replace all samples at once."""
        self._replace(SAMPLES, "".join(_line(sample) for sample in samples))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from writing to the folder.

        Raises:
            EvaluationError: Another one does.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / LOCK).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise EvaluationError(f"another epgrpo evaluate is writing to {self.folder}") from error
            yield

    @contextmanager
    def appending(self) -> Iterator[Any]:
        """Give a function that appends a sample; each is handed to the system at once. A cut-off last line goes."""
        path = self.folder / SAMPLES
        with path.open("a+b") as stream:
            stream.truncate(_whole_length(path.read_bytes()))

            def append(sample: Sample) -> None:
                stream.write(_line(sample).encode())
                stream.flush()

            yield append

    def _rows(self, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
        path = self.folder / name
        data = path.read_bytes() if path.is_file() else b""
        for number, line in enumerate(data[: _whole_length(data)].split(b"\n")[:-1], 1):
            try:
                row = json.loads(line)
            except ValueError as error:
                raise EvaluationError(
                    f"{path}, line {number} cannot be read ({error}). Delete the line; its sample is drawn again."
                ) from error
            if not isinstance(row, dict):
                raise EvaluationError(f"{path}, line {number} is no JSON object")
            yield number, row

    def _replace(self, name: str, text: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        unfinished = self.folder / f".{name}.new"
        unfinished.write_text(text, encoding="utf-8")
        os.replace(unfinished, self.folder / name)


def _whole_length(data: bytes) -> int:
    """Bytes up to the end of the last line that was written whole."""
    return data.rfind(b"\n") + 1


def _line(row: Sample | StoredProblem) -> str:
    # Escaped, as a response may hold half a surrogate pair or what other programs take for a line end.
    return json.dumps(asdict(row)) + "\n"
