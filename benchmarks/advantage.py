# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What the advantage costs, beside verl's ``grpo`` and ``grpo_vectorized`` and one streaming pass over the inputs.

Run from the root of the repository, on an otherwise idle machine, with verl installed::

    python benchmarks/advantage.py                       # 64x512 to 1024x8192
    python benchmarks/advantage.py --sizes 1024x4096 --json advantage.json

For the times each size runs in a process of its own, in which all functions take turns, and the table has the median of
each: figures of one row can be compared, those of different machines cannot. A streaming pass reads each of the five
inputs once: it sums them. The memory is measured in another process for each function, on its first call with these
inputs: the peak of the resident set less what was resident before, in arrays of the size of one float32 input. Results
are in it: ``ep_grpo`` returns five such arrays and one of int16.
"""

import argparse
import ctypes
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

SIZES = ("64x512", "256x2048", "1024x2048", "1024x4096", "1024x8192")
GROUP = 8
"""Responses of one prompt."""
VOCABULARY = 151_936
SECONDS = "seconds"
NAMES = ("stream", "grpo_vectorized", "grpo", "ep_grpo")


def make_inputs(rows: int, columns: int) -> tuple[list[torch.Tensor], np.ndarray]:
    """Draws rewards, mask, entropy, old and reference log-probs as a training has them, and the group of each row.

    Responses take up between an eighth and all of the columns, and the reward, 0 or 1, is on the last token. A third of
    the groups has equal rewards.
    """
    draw = torch.Generator().manual_seed(0)
    lengths = torch.randint(max(1, columns // 8), columns + 1, (rows,), generator=draw)
    mask = (torch.arange(columns) < lengths[:, None]).long()
    entropy = torch.rand(rows, columns, generator=draw).square() * 2.0
    old_log_probs = -entropy * torch.rand(rows, columns, generator=draw)
    ref_log_prob = old_log_probs + 0.01 * torch.randn(rows, columns, generator=draw)
    groups = torch.arange(rows) // GROUP
    right = (torch.rand(rows, generator=draw) < 0.5) & (groups % 3 != 0)
    rewards = torch.zeros(rows, columns)
    rewards[torch.arange(rows), lengths - 1] = right.float()
    uid = np.array([f"group {group}" for group in groups.tolist()], dtype=object)
    return [rewards, mask, entropy, old_log_probs, ref_log_prob], uid


def make_functions(rows: int, columns: int) -> dict[str, Callable[[], object]]:
    """Gives the functions that are compared, by name, on the same inputs."""
    from verl.trainer.ppo import core_algos

    from epgrpo_verl import EPGRPOConfig, ep_grpo_advantage

    inputs, uid = make_inputs(rows, columns)
    rewards, mask = inputs[:2]
    config = EPGRPOConfig()
    return {
        "stream": lambda: [tensor.sum() for tensor in inputs],
        "grpo_vectorized": lambda: core_algos.compute_grpo_vectorized_outcome_advantage(rewards, mask, uid),
        "grpo": lambda: core_algos.compute_grpo_outcome_advantage(rewards, mask, uid),
        "ep_grpo": lambda: ep_grpo_advantage(*inputs, uid, config, max_entropy=float(np.log(VOCABULARY))),
    }


def peak_extra_bytes(function: Callable[[], object]) -> int:
    """Calls a function once and gives the growth of the process's resident set at its peak. Linux with glibc only."""
    ctypes.CDLL("libc.so.6").malloc_trim(0)  # freed memory that stays resident would be used again unseen
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is resident
    before = _resident("VmRSS")
    result = function()
    peak = _resident("VmHWM")
    del result
    return peak - before


def _resident(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field))


def measure_seconds(size: str, repeats: int) -> dict[str, float]:
    """Measures the functions on one size, and gives the median time of each."""
    functions = make_functions(*map(int, size.split("x")))
    for function in functions.values():
        function()  # torch then has its threads, and verl its imports
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            started = time.perf_counter()
            function()
            seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in seconds.items()}


def measure_extra_arrays(size: str, name: str) -> float:
    """Measures the peak memory of one function on one size, in arrays of the size of a float32 input."""
    rows, columns = map(int, size.split("x"))
    make_functions(GROUP, 64)[name]()  # verl and torch then have what they load late
    return peak_extra_bytes(make_functions(rows, columns)[name]) / (4 * rows * columns)


def in_new_process(what: str, size: str, threads: int, repeats: int) -> dict[str, float] | float:
    """Measures in a process of its own: ``seconds`` of all functions, or the memory of the function ``what``."""
    command = [sys.executable, __file__, "--measure", what, "--sizes", size]
    command += ["--threads", str(threads), "--repeats", str(repeats)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"measuring {what} at {size} failed with exit code {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def make_table(results: dict[str, dict[str, dict[str, float]]]) -> Table:
    """Puts the sizes one below the other."""
    table = Table("rows x columns", title="Cost of the advantage")
    table.add_column("function", no_wrap=True)
    for heading in ("ms", "x streaming pass", "ns per token slot", "peak extra arrays"):
        table.add_column(heading, justify="right")
    for size, functions in results.items():
        rows, columns = map(int, size.split("x"))
        for name in NAMES:
            seconds, arrays = functions[name]["seconds"], functions[name]["extra_arrays"]
            table.add_row(
                size if name == NAMES[0] else "",
                name,
                f"{seconds * 1e3:.1f}",
                f"{seconds / functions['stream']['seconds']:.1f}",
                f"{seconds / (rows * columns) * 1e9:.1f}",
                f"{arrays:.1f}",
            )
        table.add_section()
    return table


def size_of(text: str) -> str:
    """Checks a size such as 1024x4096, of whole groups."""
    rows, _, columns = text.partition("x")
    if not (rows.isdigit() and columns.isdigit() and int(rows) % GROUP == 0 and int(rows) * int(columns)):
        raise argparse.ArgumentTypeError(f"{text!r} is not ROWSxCOLUMNS with rows a multiple of {GROUP}")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=size_of, default=SIZES, metavar="ROWSxCOLUMNS")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads of torch (default: all cores)")
    parser.add_argument("--repeats", type=int, default=9, help="calls of each function; the median counts (default: 9)")
    parser.add_argument("--json", type=Path, help="file for the figures, with versions and machine")
    parser.add_argument("--measure", choices=(SECONDS, *NAMES), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        torch.set_num_threads(args.threads)
        (size,) = args.sizes
        timed = args.measure == SECONDS
        print(json.dumps(measure_seconds(size, args.repeats) if timed else measure_extra_arrays(size, args.measure)))
        return
    console = Console()
    todo = [(size, what) for size in args.sizes for what in (SECONDS, *NAMES)]
    results: dict[str, dict[str, dict[str, float]]] = {size: {name: {} for name in NAMES} for size in args.sizes}
    for size, what in track(todo, "measuring", console=Console(stderr=True), transient=True):
        found = in_new_process(what, size, args.threads, args.repeats)
        if what == SECONDS:
            for name in NAMES:
                results[size][name]["seconds"] = found[name]
        else:
            results[size][what]["extra_arrays"] = found
    console.print(make_table(results))
    about = {
        "threads": args.threads,
        "repeats": args.repeats,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": {"python": platform.python_version(), **{name: version(name) for name in ("torch", "verl")}},
    }
    console.print(about)
    if args.json:
        args.json.write_text(json.dumps(about | {"results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
