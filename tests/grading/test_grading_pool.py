# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Hostile answers, bursts, dead workers, memory: what must not cost anyone else a right answer."""

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from epgrpo_verl.grading import GraderUnavailable, close, compute_score, compute_score_async, grading_counts
from epgrpo_verl.grading.pool import PATIENCE, WorkerPool
from epgrpo_verl.grading.worker import Request

DEADLINE_S = 1.5
# What a request may take beside its own deadline: a worker that has to be started first.
SLACK_S = 30.0
TOWER = "9^{9^{9^{9}}}"
HOSTILE = [
    TOWER,
    "5^{5^{5^{5^{5}}}}",
    "((9!)!)!",
    r"\binom{10^{10}}{10^{9}}",
    "(x+y+z)^{200}(x-y)^{200}",
    r"\sum_{k=1}^{10^{12}} \frac{1}{k!}",
    "10^{10^{10}}",
    r"\sqrt{" * 60 + "2" + "}" * 60,
    "(" * 190 + "1" + ")" * 190,
    r"\{" * 60 + "1" + r",1\}" * 60,
    "{" * 190 + "1" + "}" * 190,
    "x^{" * 90 + "2" + "}" * 90,
    "1," * 199 + "1",
    r"\frac{" * 60 + "1" + "}{2}" * 35,
    r"\pm" * 130,
    "-" * 400,
    "=" * 400,
    r"\text{" * 60,
    "1 " * 200,
]


def children() -> set[int]:
    """Returns the process ids of this process's living children."""
    listing = subprocess.run(
        ["ps", "--ppid", str(os.getpid()), "-o", "pid=,stat=,comm="], capture_output=True, text=True, check=True
    )
    rows = [line.split() for line in listing.stdout.splitlines()]
    return {int(pid) for pid, *_, name in rows if name != "ps"}


_FACTORS = itertools.count(1000)


def symbolic_pair() -> tuple[str, str]:
    """Returns a response and its gold that only a worker can compare, and that no cache knows."""
    factor = next(_FACTORS)
    return boxed(rf"{factor}\sqrt2+1"), rf"1+{factor}\sqrt{{2}}"


@pytest.fixture(autouse=True)
def _fresh_workers():  # noqa: ANN202
    close()
    yield
    close()


def boxed(answer: str) -> str:
    return rf"\boxed{{{answer}}}"


@pytest.mark.slow
def test_hostile_answers_end_in_time_and_cost_no_good_answer() -> None:
    """500 good answers, a fifth of them symbolic, are graded beside the hostile ones in the same workers."""
    good = [(str(n), str(n)) for n in range(400)]
    good += [(rf"{n}+{n}\sqrt{{2}}", rf"{n}\sqrt2+{n}") for n in range(2, 102)]
    jobs = [(answer, "5", False) for answer in HOSTILE] + [(answer, gold, True) for answer, gold in good]

    def grade(job: tuple[str, str, bool]) -> dict:
        return compute_score("mixed", boxed(job[0]), job[1], deadline_s=DEADLINE_S)

    with ThreadPoolExecutor(32) as threads:
        results = list(threads.map(grade, jobs))
    assert len(results) == len(jobs)
    assert [job[0] for job, result in zip(jobs, results, strict=True) if result["score"] != float(job[2])] == []
    assert all(result["grader_error"] == 0.0 for job, result in zip(jobs, results, strict=True) if job[2])


@pytest.mark.slow
@pytest.mark.parametrize("answer", HOSTILE, ids=lambda answer: answer[:20])
def test_a_hostile_answer_alone_ends_in_time(answer: str) -> None:
    compute_score("warm", *symbolic_pair())
    started = time.monotonic()
    result = compute_score("hostile", boxed(answer), "5", deadline_s=DEADLINE_S)
    assert result["score"] == 0.0
    assert time.monotonic() - started < DEADLINE_S * PATIENCE + 1.0


@pytest.mark.parametrize(
    "response",
    [
        "1" * 100_000,
        boxed("1" * 100_000),
        r"\frac{" * 20_000,
        r"\boxed{" * 15_000,
        boxed(r"\frac{" * 16_000),
        boxed("{" * 50_000 + "}" * 50_000),
        r"\boxed" * 15_000,
        "\\" * 100_000,
    ],
    ids=lambda response: f"{response[:12]}... of {len(response)}",
)
def test_a_very_long_response_is_no_answer_and_takes_no_time(response: str) -> None:
    started = time.process_time()
    result = compute_score("long", response, "1")
    assert result["score"] == 0.0
    assert result["reason"] in {"no_box", "unterminated_box", "box_too_long"}
    assert time.process_time() - started < 0.5


def test_after_a_timeout_the_next_answer_is_graded_and_no_child_is_left() -> None:
    before = children()
    result = compute_score("timeout", boxed(TOWER), "5", deadline_s=0.5, workers=1)
    assert (result["score"], result["acc"], result["reason"], result["grader_error"]) == (0.0, 0.0, "timeout", 1.0)
    assert children() == before
    result = compute_score("timeout", *symbolic_pair(), workers=1)
    assert (result["score"], result["reason"], result["grader_error"]) == (1.0, "symbolic", 0.0)
    assert len(children() - before) == 1
    close()
    assert children() == before


def test_a_failure_of_the_grader_is_counted_and_is_no_verdict() -> None:
    """An answer that ran out of time is graded anew when it comes back."""
    pair = symbolic_pair()
    before = grading_counts()
    assert compute_score("count", *pair, deadline_s=1e-4)["reason"] == "timeout"
    assert compute_score("count", *pair)["score"] == 1.0
    assert grading_counts() - before == {"timeout": 1, "symbolic": 1}


@pytest.mark.slow
def test_the_deadline_does_not_count_the_time_in_the_queue() -> None:
    """With one worker, 500 symbolic answers at once take longer than the deadline of each."""
    answers = [(rf"{n}\sqrt{{2}}+1", rf"1+{n}\sqrt{{2}}") for n in range(2, 502)]

    def grade(pair: tuple[str, str]) -> dict:
        return compute_score("burst", boxed(pair[0]), pair[1], deadline_s=2.0, workers=1)

    with ThreadPoolExecutor(64) as threads:
        started = time.monotonic()
        results = list(threads.map(grade, answers))
    assert time.monotonic() - started > 2.0
    assert {result["reason"] for result in results} == {"symbolic"}
    assert all(result["score"] == 1.0 for result in results)


def test_a_killed_worker_is_replaced_and_the_answer_graded() -> None:
    before = children()
    assert compute_score("kill", *symbolic_pair(), workers=1)["score"] == 1.0
    (worker,) = children() - before
    os.kill(worker, signal.SIGKILL)
    assert compute_score("kill", *symbolic_pair(), workers=1)["score"] == 1.0
    (replacement,) = children() - before
    assert replacement != worker


@pytest.mark.slow
def test_memory_is_limited() -> None:
    """The answer would take about 4 GB; the worker may take 512 MB."""
    result = compute_score("memory", boxed(r"2^{2^{35}}-2^{2^{35}}+5"), "5", deadline_s=60.0, memory_mb=512)
    assert result["grader_error"] == 1.0
    assert result["reason"] in {"memory", "worker_died"}
    assert compute_score("memory", *symbolic_pair(), memory_mb=512)["score"] == 1.0


def test_grades_in_a_thread_that_is_not_the_main_one() -> None:
    results: list[dict] = []
    thread = threading.Thread(target=lambda: results.append(compute_score("t", *symbolic_pair())))
    thread.start()
    thread.join()
    assert [result["score"] for result in results] == [1.0]


def test_the_event_loop_runs_on_while_answers_are_graded() -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    async def grade() -> list[dict]:
        ticking = asyncio.create_task(tick())
        answers = [(boxed(TOWER), "5", 0.5), (boxed("5"), "5", 0.5), (*symbolic_pair(), 10.0), (boxed("6"), "5", 0.5)]
        results = await asyncio.gather(
            *(compute_score_async("loop", response, gold, None, deadline_s=limit) for response, gold, limit in answers)
        )
        ticking.cancel()
        return results

    results = asyncio.run(grade())
    assert [result["score"] for result in results] == [0.0, 1.0, 1.0, 0.0]
    assert [result["reason"] for result in results] == ["timeout", "text", "symbolic", "different"]
    assert ticks >= 10


def test_scripts_need_no_main_guard_and_leave_no_child(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from epgrpo_verl.grading import compute_score\n"
        r"print(compute_score('s', r'\boxed{2\sqrt2}', r'\sqrt8')['score'])" + "\n"
        "from epgrpo_verl.grading.score import _POOLS\n"
        "(pool,) = _POOLS.values()\n"
        "print(pool._idle[0]._process.pid)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, env=env, timeout=120)
    score, worker = run.stdout.split()
    assert score == "1.0"
    assert not Path(f"/proc/{worker}").exists()


def runs(pid: int) -> bool:
    """Whether a process runs. One that has ended stays a zombie where this process adopts orphans (``tests/cpu``)."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.slow
def test_a_worker_ends_when_its_parent_is_killed() -> None:
    """The parent is killed in the middle of a hopeless comparison, which holds Python's lock in C code."""
    code = (
        "import threading, time\n"
        "from epgrpo_verl.grading import compute_score\n"
        f"task = lambda: compute_score('s', r'{boxed(TOWER)}', '5', deadline_s=1.0)\n"
        "compute_score('s', r'\\boxed{2\\sqrt2}', r'\\sqrt8', deadline_s=60.0)\n"
        "from epgrpo_verl.grading.score import _POOLS\n"
        "(pool,) = _POOLS.values()\n"
        "print(pool._idle[0]._process.pid, flush=True)\n"
        "threading.Thread(target=task, daemon=True).start()\n"
        "time.sleep(60)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=env)
    worker = int(parent.stdout.readline())
    time.sleep(0.5)
    assert runs(worker)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    end = time.monotonic() + SLACK_S
    while runs(worker) and time.monotonic() < end:
        time.sleep(0.1)
    assert not runs(worker)


def test_a_forked_child_starts_workers_of_its_own() -> None:
    assert compute_score("fork", *symbolic_pair())["score"] == 1.0
    before = children()
    pid = os.fork()
    if pid == 0:
        right = compute_score("fork", *symbolic_pair())["score"] == 1.0
        own = len(children()) == 1
        close()
        os._exit(0 if right and own else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert children() == before
    assert compute_score("fork", *symbolic_pair())["score"] == 1.0


def test_no_worker_at_all_is_an_error_and_not_a_wrong_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # A package of the same name that cannot be imported stands in for a missing math-verify.
    (tmp_path / "math_verify.py").write_text("raise ImportError('no module named math_verify')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(GraderUnavailable, match=r"math_verify.*pip install 'math-verify>=0\.9'"):
        compute_score("none", *symbolic_pair())


def test_settings_out_of_range_are_named() -> None:
    with pytest.raises(ValueError, match="workers"):
        WorkerPool(0, 1024)
    with pytest.raises(ValueError, match="memory_mb"):
        WorkerPool(1, 16)


def test_a_closed_pool_refuses() -> None:
    pool = WorkerPool(1, 1024)
    pool.close()
    with pytest.raises(GraderUnavailable, match="closed"):
        pool.ask(Request("1", ("1",), None, 1.0))
