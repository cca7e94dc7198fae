# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Samples of a model with everything that is measured on them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from epgrpo_verl.cpu.sampling import row_seed
from epgrpo_verl.evaluation.backend import Engine, Request, Sampling
from epgrpo_verl.evaluation.collect import sample_seed
from epgrpo_verl.evaluation.errors import EvaluationError
from epgrpo_verl.evaluation.grader import Grader, check_golds
from epgrpo_verl.evaluation.model import Model, encode
from epgrpo_verl.evaluation.problems import Problem

from .policy import Look, Policy
from .steps import Step, as_records

SAMPLES = "samples.jsonl"

Bar = Callable[[str], AbstractContextManager[Callable[[int, int], Callable[[int], None]]]]
"""Starts a progress bar of the given name; see `epgrpo_verl.evaluation.terminal.progress_bar`."""


@dataclass(frozen=True)
class Plan:
    """What is to be sampled.

    Attributes:
        model: The model.
        problems: The problems.
        n: Samples per problem.
        sampling: How responses are drawn, from the whole distribution at a temperature above 0.
        engine: How they are computed.
        grader: What grades them.
        workers: Threads that grade.
    """

    model: Model
    problems: Sequence[Problem]
    n: int
    sampling: Sampling
    engine: Engine
    grader: Grader
    workers: int = 2

    def __post_init__(self) -> None:
        if self.sampling.temperature == 0:
            raise EvaluationError("--temperature 0 has no entropy: give the temperature of the training's rollout")
        if (self.sampling.top_p, self.sampling.top_k) != (1.0, -1):
            raise EvaluationError("top_p and top_k have to be off: the entropy is of the whole distribution")


@dataclass(frozen=True)
class Sample:
    """One response.

    Attributes:
        problem: Number of its problem in the plan.
        key: Set, name of the problem, number of the sample.
        prompt_ids: The prompt.
        prompt: The prompt's text, special tokens included.
        tokens: The response, its end token included.
        response: Its text, without special tokens.
        won: Whether the grader says that it is right.
        grader_error: Whether the grader failed; then `won` is false.
        look: Entropies, and what could replace the tokens.
    """

    problem: int
    key: tuple[str, str, int]
    prompt_ids: list[int]
    prompt: str
    tokens: list[int]
    response: str
    won: bool
    grader_error: bool
    look: Look


def open_policy(plan: Plan) -> Policy:
    """Loads the model.

    Raises:
        EvaluationError: It cannot be loaded.
    """
    try:
        return Policy(plan.model, plan.sampling, plan.engine, context=0)
    except EvaluationError:
        raise
    except Exception as error:
        raise EvaluationError(f"--model {plan.model.name} cannot be loaded: {type(error).__name__}: {error}") from error


def collect(plan: Plan, policy: Policy, prompts: Sequence[list[int]], bar: Bar) -> list[Sample]:
    """Draws responses, grades them, and looks at each token.

    The responses are those that ``epgrpo evaluate --backend hf`` draws with the same settings.

    Args:
        plan: What is to be sampled.
        policy: The model, loaded.
        prompts: Token ids of the problems' prompts.
        bar: Shows the progress.

    Returns:
        n samples of the first problem, then of the next.
    """
    decode = plan.model.tokenizer.decode
    owners = [number for number in range(len(plan.problems)) for _ in range(plan.n)]
    requests = []
    for place, number in enumerate(owners):
        problem = plan.problems[number]
        key = (problem.set, problem.id, place % plan.n)
        requests.append(Request(key, prompts[number], sample_seed(plan.sampling.seed, key)))
    tokens = []
    with bar("samples") as start:
        advance = start(0, len(requests))
        for response in policy.generate(requests):
            tokens.append(response.tokens)
            advance(1)
    texts = [decode(ids, skip_special_tokens=True) for ids in tokens]
    verdicts = grade(plan, [plan.problems[number] for number in owners], texts)
    rows = [(request.prompt, ids) for request, ids in zip(requests, tokens, strict=True)]
    uniforms = [
        np.random.default_rng(row_seed(plan.sampling.seed, "replacement", *request.key)).random(len(ids)).tolist()
        for request, ids in zip(requests, tokens, strict=True)
    ]
    with bar("entropies") as start:
        looks = policy.look(rows, uniforms, start(0, len(rows)))
    rendered = [decode(ids, skip_special_tokens=False) for ids in prompts]
    return [
        Sample(
            owners[place],
            request.key,
            request.prompt,
            rendered[owners[place]],
            tokens[place],
            texts[place],
            *verdicts[place],
            looks[place],
        )
        for place, request in enumerate(requests)
    ]


def encode_problems(plan: Plan) -> list[list[int]]:
    """Token ids of the prompts, after a look at the answers.

    Raises:
        EvaluationError: A prompt is too long, or this project's grader cannot read an answer.
    """
    if plan.grader.own:
        check_golds(list(plan.problems))
    return encode(plan.model, plan.problems, plan.sampling.max_tokens)


def grade(plan: Plan, problems: Sequence[Problem], texts: Sequence[str]) -> list[tuple[bool, bool]]:
    """Grades responses, and tells of each whether it is right and whether the grader failed."""
    with ThreadPoolExecutor(plan.workers, thread_name_prefix="epgrpo-diagnose") as pool:
        verdicts = list(pool.map(plan.grader.grade, problems, texts))
    return [(verdict.score == 1.0, verdict.grader_error) for verdict in verdicts]


def write_samples(path: Path, samples: Sequence[Sample], steps: Sequence[Sequence[Step]] | None) -> None:
    """Writes samples in the form of a file of labels.

    Args:
        path: The file.
        samples: The samples.
        steps: The steps of each, if they are known; null is written if not.
    """
    with path.open("w", encoding="utf-8") as stream:
        for number, sample in enumerate(samples):
            record: dict[str, Any] = {
                "set": sample.key[0],
                "id": sample.key[1],
                "sample": sample.key[2],
                "prompt": sample.prompt,
                "response": sample.response,
                "score": float(sample.won),
                "tokens": len(sample.tokens),
                "steps": None if steps is None else as_records(steps[number]),
            }
            stream.write(json.dumps(record, ensure_ascii=False) + "\n")
