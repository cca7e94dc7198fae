# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The score of a response: the function that training and evaluation call."""

import asyncio
import json
import os
import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from .compare import Undecided, answers_equal
from .extract import MAX_BOX_CHARS, last_box
from .normalize import normalize
from .pool import WorkerPool
from .worker import Reply, Request

DEADLINE_S = 4.0
MEMORY_MB = 1024
WORKERS = 2
CACHE_SIZE = 20_000
# A gold with more words than this is a sentence.
MAX_WORDS = 3

_PROSE_WORD = re.compile(r"(?<![\\a-zA-Z])[a-zA-Z]{3,}")


class _Task(NamedTuple):
    """A response whose box has been found, and the golds it may match."""

    pred: str
    golds: tuple[str, ...]
    rel_tol: float | None


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str | Iterable[str],
    extra_info: dict[str, Any] | None = None,
    *,
    rel_tol: float | None = None,
    deadline_s: float = DEADLINE_S,
    workers: int = WORKERS,
    memory_mb: int = MEMORY_MB,
    reward_router_address: str | None = None,
    reward_model_tokenizer: Any = None,
) -> dict[str, float | str]:
    r"""Grades the last ``\boxed{}`` of a response. For verl's ``reward.custom_reward_function``.

    May be called from any thread. Settings can be passed as ``reward.custom_reward_function.reward_kwargs``.

    Args:
        data_source: Name of the data set; handed back, as verl's validation dump leaves it out. The key is another one,
            because verl's V0 trainers refuse an extra that has the name of a column of the batch.
        solution_str: The response, without the prompt.
        ground_truth: The answer asked for: a string, or several of which any may match, also as a JSON list of strings.
        extra_info: Unused; verl passes it.
        rel_tol: The relative tolerance for numbers, such as Minerva's 1e-2. By default integers must be met exactly
            and other numbers within 1e-6 of their size.
        deadline_s: Seconds of work that one symbolic comparison may take, from its start in a worker. Where other
            programs keep the worker from running it may take five times as long on the clock.
        workers: The largest number of worker processes of this process.
        memory_mb: The address space of a worker in MB.
        reward_router_address: Unused; verl passes it where a reward model runs.
        reward_model_tokenizer: Unused, as above.

    Returns:
        A dict with the same keys for every response: ``score`` and ``acc`` (1.0 or 0.0), ``pred`` (the normalised
        answer, empty where there is none), ``reason`` (the rule that matched, ``different``, or why there is nothing to
        compare), ``grader_error`` (1.0 where the grader failed: timeout, memory, a dead worker) and
        ``graded_data_source``.

    Raises:
        ValueError: If the ground truth is missing or empty.
        GraderUnavailable: If no worker process can be started, for instance because math-verify is not installed.
    """
    golds = parse_ground_truth(ground_truth, data_source)
    answer = last_box(solution_str)
    if answer.content is None:
        return _result(data_source, "", Reply(False, answer.problem))
    task = _Task(answer.content, golds, rel_tol)
    reply = _CACHE.get(task) or _compare_text(task)
    if reply is None:
        reply = _pool(workers, memory_mb).ask(Request(*task, deadline_s))
    _CACHE.put(task, reply)
    return _result(data_source, _pred_text(task.pred), reply)


async def compute_score_async(
    data_source: str,
    solution_str: str,
    ground_truth: str | Iterable[str],
    extra_info: dict[str, Any] | None = None,
    **settings: Any,
) -> dict[str, float | str]:
    """Grades as :func:`compute_score` does, without holding up the event loop or the default executor's threads."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(
        _executor(), lambda: compute_score(data_source, solution_str, ground_truth, extra_info, **settings)
    )


def parse_ground_truth(ground_truth: str | Iterable[str], data_source: str = "") -> tuple[str, ...]:
    r"""Returns the answers that may match, each without its ``\boxed{}`` if it has one.

    Raises:
        ValueError: If there is none, or one is empty.
    """
    if isinstance(ground_truth, str):
        golds = _json_strings(ground_truth) or [ground_truth]
    elif ground_truth is None:
        golds = []
    elif isinstance(ground_truth, Iterable):
        golds = [str(gold) for gold in ground_truth]
    else:
        golds = [str(ground_truth)]
    golds = [last_box(gold).content or gold for gold in golds]
    if not golds or not all(gold.strip() for gold in golds):
        raise ValueError(
            f"no answer to grade against in data source {data_source!r}: reward_model.ground_truth is {ground_truth!r}"
        )
    return tuple(golds)


def _json_strings(text: str) -> list[str] | None:
    if not text.lstrip().startswith("["):
        return None
    try:
        values = json.loads(text)
    except ValueError:
        return None
    # `[1, 2]` is an interval, not a list of answers.
    return values if values and all(isinstance(value, str) for value in values) else None


def gold_problem(ground_truth: str | Iterable[str], *, deadline_s: float = DEADLINE_S) -> str | None:
    """Tells why a ground truth cannot be graded against, or returns ``None`` if it can.

    A gold must be short, and be numbers, words or mathematics rather than sentences. For the preparation of data.
    """
    try:
        golds = parse_ground_truth(ground_truth)
    except ValueError:
        return "empty"
    for gold in golds:
        if len(gold) > MAX_BOX_CHARS:
            return f"longer than {MAX_BOX_CHARS} characters"
        if len(_PROSE_WORD.findall(gold)) > MAX_WORDS:
            return "prose"
        reply = _pool(WORKERS, MEMORY_MB).ask(Request(gold, (), None, deadline_s))
        if reply.equal is not True:
            return reply.reason
    return None


def grading_counts() -> Counter[str]:
    """Returns how often each reason was given by this process, grader errors included."""
    with _LOCK:
        return Counter(_COUNTS)


def _compare_text(task: _Task) -> Reply | None:
    """Decides what needs no symbolic comparison, here and now; ``None`` for the rest."""
    pred = normalize(task.pred)
    for gold in task.golds:
        try:
            comparison = answers_equal(pred, normalize(gold), None, task.rel_tol)
        except (Undecided, RecursionError):
            return None
        if comparison.equal:
            return Reply(True, comparison.how)
    return Reply(False, "different")


def _pred_text(pred: str) -> str:
    return normalize(pred).body


def _result(data_source: str, pred: str, reply: Reply) -> dict[str, float | str]:
    with _LOCK:
        _COUNTS[reply.reason] += 1
    score = 1.0 if reply.equal else 0.0
    return {
        "score": score,
        "acc": score,
        "pred": pred,
        "reason": reply.reason,
        "grader_error": 1.0 if reply.equal is None else 0.0,
        "graded_data_source": str(data_source),
    }


class _Cache:
    """The last verdicts. Failures of the grader are not kept: they are no verdict."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._replies: OrderedDict[_Task, Reply] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, task: _Task) -> Reply | None:
        with self._lock:
            reply = self._replies.get(task)
            if reply is not None:
                self._replies.move_to_end(task)
            return reply

    def put(self, task: _Task, reply: Reply) -> None:
        if reply.equal is None:
            return
        with self._lock:
            self._replies[task] = reply
            if len(self._replies) > self._size:
                self._replies.popitem(last=False)


def _pool(workers: int, memory_mb: int) -> WorkerPool:
    with _LOCK:
        key = (workers, memory_mb)
        if key not in _POOLS:
            _POOLS[key] = WorkerPool(workers, memory_mb)
        return _POOLS[key]


def _executor() -> ThreadPoolExecutor:
    global _EXECUTOR
    with _LOCK:
        if _EXECUTOR is None:
            _EXECUTOR = ThreadPoolExecutor(max_workers=32, thread_name_prefix="epgrpo-grading")
        return _EXECUTOR


def close() -> None:
    """Kills this process's grading workers. The next score starts new ones."""
    with _LOCK:
        pools = list(_POOLS.values())
        _POOLS.clear()
    for pool in pools:
        pool.close()


def _after_fork() -> None:
    """A forked child must not talk to its parent's workers."""
    global _EXECUTOR, _LOCK, _CACHE
    _LOCK = threading.Lock()
    _CACHE = _Cache(CACHE_SIZE)
    _POOLS.clear()
    _EXECUTOR = None


_LOCK = threading.Lock()
_CACHE = _Cache(CACHE_SIZE)
_POOLS: dict[tuple[int, int], WorkerPool] = {}
_EXECUTOR: ThreadPoolExecutor | None = None
_COUNTS: Counter[str] = Counter()
os.register_at_fork(after_in_child=_after_fork)
