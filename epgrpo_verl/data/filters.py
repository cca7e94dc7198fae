# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The rules that drop training problems: each gives back the problems it keeps, and why it dropped the others."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from epgrpo_verl.grading import GraderUnavailable, gold_problem
from epgrpo_verl.grading.normalize import normalize

from .errors import PrepareError
from .problems import Problem

NGRAM = 13
"""Words in a row that a training problem may not share with a benchmark problem. A choice; GPT-3 used 13 as well."""

_WORD = re.compile(r"[a-z]+|\d+")
# The same fraction or bracket may be written in several ways.
_SAME = {"dfrac": "frac", "tfrac": "frac"}
_LAYOUT = frozenset({"left", "right", "displaystyle", "text", "mathrm", "mbox", "quad", "qquad"})

GOLD_DEADLINE_S = 20.0
"""Seconds to read one answer: more than the grader's own, so that a busy machine drops the same rows as an idle one."""

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Dropped:
    """A problem that was dropped: by which rule, and the detail that decided."""

    id: str
    rule: str
    detail: str


def words(text: str) -> tuple[str, ...]:
    """The words and numbers of a problem in lower case, LaTeX commands among them, layout and punctuation left out."""
    found = (_SAME.get(word, word) for word in _WORD.findall(text.lower()))
    return tuple(word for word in found if word not in _LAYOUT)


def drop_duplicates(problems: Sequence[Problem]) -> tuple[list[Problem], list[Dropped]]:
    """Keep the first of several rows with the same problem; drop all of them where their answers differ."""
    groups: dict[tuple[str, ...], list[Problem]] = defaultdict(list)
    for problem in problems:
        groups[words(problem.text)].append(problem)
    dropped = []
    lost: set[int] = set()
    for group in groups.values():
        if len(group) == 1:
            continue
        answers = {tuple(normalize(gold).body for gold in problem.golds) for problem in group}
        if len(answers) > 1:
            shown = ", ".join(f"{problem.id}: {problem.ground_truth}" for problem in group)
            dropped += [Dropped(problem.id, "conflicting answers", shown) for problem in group]
            lost |= {problem.index for problem in group}
        else:
            dropped += [Dropped(problem.id, "duplicate problem", f"as {group[0].id}") for problem in group[1:]]
            lost |= {problem.index for problem in group[1:]}
    return [problem for problem in problems if problem.index not in lost], dropped


def drop_difficulty(problems: Sequence[Problem], low: int, high: int) -> tuple[list[Problem], list[Dropped]]:
    """Keep problems that the difficulty model failed from ``low`` to ``high`` times of 16, both included."""
    return _split(
        problems,
        "difficulty",
        lambda problem: (
            None
            if problem.difficulty is not None and low <= problem.difficulty <= high
            else f"{problem.difficulty}, not {low} to {high}"
        ),
    )


def drop_several_golds(problems: Sequence[Problem]) -> tuple[list[Problem], list[Dropped]]:
    """Keep problems with exactly one answer."""
    return _split(
        problems,
        "not one answer",
        lambda problem: None if len(problem.golds) == 1 else f"{len(problem.golds)} answers",
    )


def drop_benchmarks(
    problems: Sequence[Problem], benchmarks: Iterable[tuple[str, str]]
) -> tuple[list[Problem], list[Dropped]]:
    """Drop problems that are, or share `NGRAM` words in a row with, a benchmark problem.

    Args:
        problems: The training problems.
        benchmarks: Name and text of each benchmark problem.
    """
    whole: dict[tuple[str, ...], str] = {}
    grams: dict[tuple[str, ...], str] = {}
    for name, text in benchmarks:
        sequence = words(text)
        whole[sequence] = name
        for start in range(len(sequence) - NGRAM + 1):
            grams.setdefault(sequence[start : start + NGRAM], name)

    def overlap(problem: Problem) -> str | None:
        sequence = words(problem.text)
        if sequence in whole:
            return f"same problem as {whole[sequence]}"
        for start in range(len(sequence) - NGRAM + 1):
            gram = sequence[start : start + NGRAM]
            if gram in grams:
                return f"shares '{' '.join(gram)}' with {grams[gram]}"
        return None

    return _split(problems, "in a benchmark", overlap)


def drop_long(
    problems: Sequence[Problem],
    count: Callable[[Sequence[str]], list[int]],
    limit: int,
    progress: Progress = lambda done: None,
    batch: int = 1000,
) -> tuple[list[Problem], list[Dropped]]:
    """Drop problems whose prompt has more than ``limit`` tokens.

    Args:
        problems: The problems.
        count: Counts the tokens of prompts, see `epgrpo_verl.data.prompt.token_counter`.
        limit: The largest number of tokens.
        progress: Told how many more are done.
        batch: Problems to count at a time.
    """
    lengths: list[int] = []
    for start in range(0, len(problems), batch):
        part = problems[start : start + batch]
        lengths += count([problem.text for problem in part])
        progress(len(part))
    by_index = {problem.index: length for problem, length in zip(problems, lengths, strict=True)}
    return _split(
        problems,
        "prompt too long",
        lambda problem: None if by_index[problem.index] <= limit else f"{by_index[problem.index]} tokens, over {limit}",
    )


def drop_bad_golds(
    problems: Sequence[Problem], progress: Progress = lambda done: None, threads: int = 2
) -> tuple[list[Problem], list[Dropped]]:
    """Drop problems whose answer the grader cannot read: prose, broken LaTeX, or nothing.

    Raises:
        PrepareError: The grader is not installed.
    """

    def faults(problem: Problem) -> str | None:
        fault = gold_problem(problem.ground_truth, deadline_s=GOLD_DEADLINE_S)
        progress(1)
        return None if fault is None else f"{fault}: {problem.ground_truth[:100]}"

    try:
        with ThreadPoolExecutor(threads) as pool:
            found = dict(zip((problem.index for problem in problems), pool.map(faults, problems), strict=True))
    except GraderUnavailable as error:
        raise PrepareError(f"answers cannot be checked: {error}") from error
    return _split(problems, "answer not gradable", lambda problem: found[problem.index])


def _split(
    problems: Sequence[Problem], rule: str, reason: Callable[[Problem], str | None]
) -> tuple[list[Problem], list[Dropped]]:
    kept, dropped = [], []
    for problem in problems:
        detail = reason(problem)
        if detail is None:
            kept.append(problem)
        else:
            dropped.append(Dropped(problem.id, rule, detail))
    return kept, dropped
