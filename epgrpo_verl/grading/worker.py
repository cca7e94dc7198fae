# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The process that compares answers as mathematics. Started and guarded by :mod:`epgrpo_verl.grading.pool`."""

import math
import resource
import sys
from multiprocessing.connection import Connection
from types import ModuleType
from typing import NamedTuple

from .compare import answers_equal, is_plain, leaves
from .normalize import normalize

READY = "ready"


class Request(NamedTuple):
    """One comparison.

    Attributes:
        pred: The answer given, as it was written.
        golds: The answers asked for; any of them may match. With none, ``pred`` is only checked to be readable.
        rel_tol: See :func:`epgrpo_verl.grading.numbers.numbers_equal`.
        deadline_s: Seconds the comparison may take.
    """

    pred: str
    golds: tuple[str, ...]
    rel_tol: float | None
    deadline_s: float


class Reply(NamedTuple):
    """The outcome of a comparison.

    Attributes:
        equal: The verdict; ``None`` where the grader failed.
        reason: The rule that decided, ``different``, ``unparsable``, or what went wrong.
    """

    equal: bool | None
    reason: str


def serve(connection: Connection, memory_mb: int) -> None:
    """Answers requests until the other end closes.

    The worker limits its own address space, and the processor time of each request: a worker whose parent was killed
    in the middle of a hopeless request still ends.
    """
    try:
        from . import symbolic
    except ImportError as error:
        connection.send(f"{type(error).__name__}: {error}")
        return
    _limit(resource.RLIMIT_AS, memory_mb * 2**20)
    for expression in symbolic.WARM_UP:
        symbolic.parse(expression)
    connection.send(READY)
    while True:
        try:
            request = connection.recv()
        except EOFError:
            return
        usage = resource.getrusage(resource.RUSAGE_SELF)
        _limit(resource.RLIMIT_CPU, math.ceil(usage.ru_utime + usage.ru_stime + request.deadline_s) + 2)
        try:
            reply = _compare(request, symbolic) if request.golds else _check(request.pred, symbolic)
        except MemoryError:
            reply = Reply(None, "memory")
        except Exception as error:
            reply = Reply(None, f"error:{type(error).__name__}")
        connection.send(reply)


def _compare(request: Request, symbolic: ModuleType) -> Reply:
    unparsed = False

    def symbolic_equal(pred: str, gold: str) -> bool:
        nonlocal unparsed
        try:
            return symbolic.symbolic_equal(pred, gold)
        except symbolic.Unparsable:
            unparsed = True
            return False

    pred = normalize(request.pred)
    for gold in request.golds:
        comparison = answers_equal(pred, normalize(gold), symbolic_equal, request.rel_tol)
        if comparison.equal:
            return Reply(True, comparison.how)
    return Reply(False, "unparsable" if unparsed else "different")


def _check(answer: str, symbolic: ModuleType) -> Reply:
    for leaf in leaves(normalize(answer).body):
        if not is_plain(leaf):
            try:
                symbolic.parse(leaf)
            except symbolic.Unparsable:
                return Reply(False, "unparsable")
    return Reply(True, "parsable")


def _limit(kind: int, soft: int) -> None:
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard)
    resource.setrlimit(kind, (soft, hard))


def main(argv: list[str]) -> None:
    """Serves the connection whose file descriptor is the first argument; the second is the memory limit in MB."""
    serve(Connection(int(argv[0])), int(argv[1]))


if __name__ == "__main__":
    main(sys.argv[1:])
