# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Compares this project's grader with math-verify and with verl's graders.

Two measurements: agreement with the expected verdicts of ``tests/grading/pairs.jsonl``, and milliseconds per answer on
the golds of five benchmarks, each graded against itself as a response with a box. Run from the root of the repository::

    python benchmarks/grading.py

Each grader runs in a process of its own, so that one that hangs is stopped and counted, and the rest goes on. The pairs
are this project's own tests: its own grader has to agree with all of them, and the other columns show what it adds.
"""

import argparse
import json
import multiprocessing
import multiprocessing.connection
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "tests"
BENCHMARKS = ("math500", "amc23", "minerva", "aime24", "aime25")
Grader = Callable[[str, str], bool]


def epgrpo() -> Grader:
    from epgrpo_verl.grading import compute_score

    return lambda response, gold: compute_score("benchmark", response, gold)["acc"] == 1.0


def math_verify() -> Grader:
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

    configs = (LatexExtractionConfig(), ExprExtractionConfig())
    return lambda response, gold: verify(parse(rf"\boxed{{{gold}}}", configs), parse(response, configs))


def verl_math_verify() -> Grader:
    from verl.utils.reward_score.math_verify import compute_score

    return lambda response, gold: compute_score(response, gold) == 1.0


def verl_math_reward() -> Grader:
    from verl.utils.reward_score.math_reward import compute_score

    return lambda response, gold: compute_score(response, gold) == 1.0


def verl_math_dapo() -> Grader:
    from verl.utils.reward_score.math_dapo import compute_score

    return lambda response, gold: bool(compute_score(response, gold)["acc"])


def verl_prime_math() -> Grader:
    from verl.utils.reward_score.prime_math import compute_score

    return lambda response, gold: bool(compute_score(response, gold)[0])


GRADERS = (epgrpo, math_verify, verl_math_verify, verl_math_reward, verl_math_dapo, verl_prime_math)


def serve(make: Callable[[], Grader], connection: multiprocessing.connection.Connection) -> None:
    """Grades what comes in, and answers with a verdict (``None`` for an exception) and the seconds taken."""
    os.setsid()
    # verl's prime_math starts a process per comparison, and can do so only by a fork.
    multiprocessing.set_start_method("fork", force=True)
    # verl's graders print what they cannot read.
    sys.stdout = open(os.devnull, "w")
    grader = make()
    while True:
        case = connection.recv()
        started = time.perf_counter()
        try:
            verdict = grader(*case)
        except Exception:
            verdict = None
        connection.send((verdict, time.perf_counter() - started))


def grade(
    make: Callable[[], Grader], cases: list[tuple[str, str]], limit_s: float
) -> list[tuple[bool | str | None, float]]:
    """Returns a verdict and the seconds taken for each case; the verdict is ``hung`` where the limit was reached."""
    context = multiprocessing.get_context("spawn")
    results: list[tuple[bool | str | None, float]] = []
    process = None
    for case in cases:
        if process is None:
            connection, child = context.Pipe()
            process = context.Process(target=serve, args=(make, child))
            process.start()
            # Not measured: the start of the process, imports, and the grader's first comparison.
            connection.send((r"\boxed{\frac{\sqrt{2}}{2}}", r"\frac{1}{\sqrt{2}}"))
            connection.recv()
        connection.send(case)
        if connection.poll(limit_s):
            results.append(connection.recv())
        else:
            results.append(("hung", limit_s))
            end(process)
            process = None
    if process is not None:
        end(process)
    return results


def end(process: multiprocessing.Process) -> None:
    """Ends a grader and the processes it started, some of which would outlive it."""
    os.killpg(process.pid, signal.SIGKILL)
    process.join()


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def milliseconds(results: list[tuple[bool | str | None, float]]) -> tuple[str, str]:
    """Returns the mean and the median of the times, in milliseconds."""
    times = [1000 * seconds for _, seconds in results]
    return f"{statistics.mean(times):.2f}", f"{statistics.median(times):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=40.0, help="seconds after which a grader counts as hung")
    parser.add_argument("--only", nargs="*", default=[make.__name__ for make in GRADERS], help="graders to run")
    arguments = parser.parse_args()
    pairs = read(TESTS / "grading" / "pairs.jsonl")
    pair_cases = [(pair.get("response", rf"The answer is \boxed{{{pair['answer']}}}."), pair["gold"]) for pair in pairs]
    golds = [row["answer"] for name in BENCHMARKS for row in read(TESTS / "data" / "benchmarks" / f"{name}.jsonl")]
    gold_cases = [(rf"The answer is \boxed{{{gold}}}.", gold) for gold in golds]

    right = sum(pair["right"] for pair in pairs)
    print(f"{len(pairs)} pairs, {right} of them right; {len(golds)} golds of {', '.join(BENCHMARKS)}\n")
    columns = ["agree", "right rejected", "wrong accepted", "hung", "pair ms mean", "pair ms median"]
    columns += ["golds right", "gold ms mean", "gold ms median"]
    print(f"| {'grader':<16} | {' | '.join(columns)} |")
    print(f"|{'|'.join('-' * (width + 2) for width in [16, *map(len, columns)])}|")
    for make in GRADERS:
        if make.__name__ not in arguments.only:
            continue
        paired = grade(make, pair_cases, arguments.limit)
        verdicts = [verdict for verdict, _ in paired]
        rejected = sum(pair["right"] and verdict is not True for pair, verdict in zip(pairs, verdicts, strict=True))
        accepted = sum(not pair["right"] and verdict is True for pair, verdict in zip(pairs, verdicts, strict=True))
        timed = grade(make, gold_cases, arguments.limit)
        row = [len(pairs) - rejected - accepted, rejected, accepted, verdicts.count("hung"), *milliseconds(paired)]
        row += [sum(verdict is True for verdict, _ in timed), *milliseconds(timed)]
        cells = [f"{value:>{len(column)}}" for value, column in zip(row, columns, strict=True)]
        print(f"| {make.__name__:<16} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
