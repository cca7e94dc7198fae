# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Drawing, grading and storing the samples that a run still lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path

from .backend import Engine, Request, Response, Sampling, start_backend
from .errors import EvaluationError
from .grader import Grader, check_golds
from .model import Model, encode
from .problems import Problem, problems_digest
from .settings import refuse_changes, run_settings, session
from .store import Key, Sample, Store, StoredProblem
from .terminal import Advance

# Graded answers that wait for a worker; more would only fill the memory.
_WAITING_PER_WORKER = 64


@dataclass(frozen=True)
class Plan:
    """What is to be measured.

    Attributes:
        out: Folder of the run.
        model: The model.
        sets: Set to its problems.
        n: Samples per problem.
        backend: ``hf`` or ``vllm``.
        sampling: How responses are drawn.
        engine: How they are computed.
        grader: What grades them.
        rel_tol: Tolerance of the grader.
        workers: Threads that grade.
    """

    out: Path
    model: Model
    sets: Mapping[str, Sequence[Problem]]
    n: int
    backend: str
    sampling: Sampling
    engine: Engine
    grader: Grader
    rel_tol: float | None = None
    workers: int = 2

    @property
    def total(self) -> int:
        """Samples that the run has when it is complete."""
        return self.n * sum(map(len, self.sets.values()))


def collect(plan: Plan, on_start: Callable[[int, int], Advance]) -> None:
    """Draw what is missing, grade it, and store each sample as soon as it is graded.

    Args:
        plan: What is to be measured. Where its folder has samples, the run goes on.
        on_start: Called with the number of samples there are and that there will be, before the model is loaded.

    Raises:
        EvaluationError: Anything is not as it must be. What was stored stays.
    """
    problems = {(problem.set, problem.id): problem for part in plan.sets.values() for problem in part}
    check_golds(list(problems.values()))
    if plan.sampling.temperature == 0 and plan.n > 1:
        raise EvaluationError(f"--temperature 0 gives the same response {plan.n} times: use --n 1 with it")
    prompts = dict(zip(problems, encode(plan.model, list(problems.values()), plan.sampling.max_tokens), strict=True))
    store = Store(plan.out)
    with store.locked():
        _register(plan, store, problems, prompts)
        present = store.samples()
        requests = [
            Request(key, prompts[key[:2]], sample_seed(plan.sampling.seed, key))
            for key in _keys(plan)
            if key not in present
        ]
        progress = on_start(plan.total - len(requests), plan.total)
        if not requests:
            return
        context = max(len(request.prompt) for request in requests) + plan.sampling.max_tokens
        backend = start_backend(plan.backend, plan.model, plan.sampling, plan.engine, context)
        seeds = {request.key: request.seed for request in requests}
        with store.appending() as append:
            for sample in _graded(plan, problems, seeds, backend.generate(requests)):
                append(sample)
                progress(1)


def sample_seed(seed: int, key: Key) -> int:
    """The seed of one sample: the same whatever else is sampled, and small enough for a JSON number (53 bits)."""
    from epgrpo_verl.cpu.sampling import row_seed  # here, as torch comes with it, which the help does not need

    return row_seed(seed, *key) >> 11


def _keys(plan: Plan) -> Iterator[Key]:
    # All problems once, then all twice: what is there after an interruption is spread evenly.
    for index in range(plan.n):
        for problems in plan.sets.values():
            for problem in problems:
                yield problem.set, problem.id, index


def _register(
    plan: Plan,
    store: Store,
    problems: Mapping[tuple[str, str], Problem],
    prompts: Mapping[tuple[str, str], list[int]],
) -> None:
    """Write settings and problems, or compare them with those that are there."""
    fixed = run_settings(plan.model, plan.backend, plan.sampling, plan.engine, plan.grader, plan.rel_tol)
    digests = {name: problems_digest(part) for name, part in plan.sets.items()}
    old = store.settings() or {"fixed": fixed, "sets": {}, "sessions": []}
    old_digests = {name: entry["problems"] for name, entry in old["sets"].items()}
    refuse_changes(old["fixed"], fixed, old_digests, digests, str(plan.out))
    sets = {name: {"problems": digest, "n": plan.n} for name, digest in digests.items()}
    store.write_settings(
        {
            "model": plan.model.name,
            "lora": plan.model.adapter_name,
            "fixed": fixed,
            "sets": {**old["sets"], **sets},
            "sessions": [*old["sessions"], session(plan.backend, plan.n)],
        }
    )
    # A run that was killed before this line has settings, but no samples yet.
    stored = {(problem.set, problem.id): problem for problem in store.problems()}
    decode = plan.model.tokenizer.decode
    for key, problem in problems.items():
        text = decode(prompts[key], skip_special_tokens=True)
        stored[key] = StoredProblem(*key, text, len(prompts[key]), problem.ground_truth)
    store.write_problems(stored.values())


def _graded(
    plan: Plan,
    problems: Mapping[tuple[str, str], Problem],
    seeds: Mapping[Key, int],
    responses: Iterator[Response],
) -> Iterator[Sample]:
    """Grade in threads while the next responses are generated; yields samples in the order in which they get ready."""

    def grade(response: Response, text: str) -> Sample:
        verdict = plan.grader.grade(problems[response.key[:2]], text)
        return Sample(
            *response.key,
            seed=seeds[response.key],
            response=text,
            tokens=len(response.tokens),
            finish_reason=response.finish_reason,
            score=verdict.score,
            pred=verdict.pred,
            reason=verdict.reason,
            grader_error=verdict.grader_error,
        )

    waiting: set[Future[Sample]] = set()
    with ThreadPoolExecutor(plan.workers, thread_name_prefix="epgrpo-evaluate") as pool:
        try:
            for response in responses:
                text = plan.model.tokenizer.decode(response.tokens, skip_special_tokens=True)
                waiting.add(pool.submit(grade, response, text))
                done = {future for future in waiting if future.done()}
                if not done and len(waiting) >= _WAITING_PER_WORKER * plan.workers:
                    done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                waiting -= done
                for future in done:
                    yield future.result()
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def regrade(
    out: Path, grader: Grader, rel_tol: float | None, workers: int, on_start: Callable[[int, int], Advance]
) -> int:
    """Grade all stored samples again, and replace them at once.

    Returns:
        The number of samples whose score changed.

    Raises:
        EvaluationError: There is no run, or the grader fails as a whole.
    """
    store = Store(out)
    settings = store.settings()
    if settings is None:
        raise EvaluationError(f"--regrade: there is no run in {out}")
    with store.locked():
        problems = {(p.set, p.id): Problem(p.set, p.id, (), p.ground_truth) for p in store.problems()}
        samples = list(store.samples().values())
        progress = on_start(0, len(samples))
        graded = []
        with ThreadPoolExecutor(workers, thread_name_prefix="epgrpo-evaluate") as pool:
            verdicts = pool.map(lambda sample: grader.grade(problems[sample.key[:2]], sample.response), samples)
            for sample, verdict in zip(samples, verdicts, strict=True):
                graded.append(replace(sample, **vars(verdict)))
                progress(1)
        # Killed between these lines, the run can only be graded again: no grader has this name.
        store.write_settings({**settings, "fixed": {**settings["fixed"], "grader": "an unfinished --regrade"}})
        store.replace_samples(graded)
        fixed = {**settings["fixed"], "grader": grader.name, "rel_tol": rel_tol}
        store.write_settings({**settings, "fixed": fixed})
    return sum(before.score != after.score for before, after in zip(samples, graded, strict=True))
