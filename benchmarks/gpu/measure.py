# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Seconds and memory of a function on a device."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch

REPEATS = 5
"""Measured calls, after one that is not measured."""
PATIENCE_S = 8.0
"""Seconds after which no further call of the same function is measured."""


@dataclass(frozen=True)
class Measurement:
    """A function's cost.

    Attributes:
        seconds: Median over the calls.
        calls: Measured calls.
        extra_bytes: Peak of the device's memory above what was allocated before; None where that is not known (CPU).
    """

    seconds: float
    calls: int
    extra_bytes: int | None


def measure(function: Callable[[], Any], device: torch.device) -> Measurement:
    """Calls a function once to warm up, and then some times with a clock.

    Args:
        function: What to measure. Its result is dropped.
        device: Where it works. Its queue is empty when the clock is read.
    """
    cuda = device.type == "cuda"

    def call() -> float:
        if cuda:
            torch.cuda.synchronize(device)
        started = time.perf_counter()
        function()
        if cuda:
            torch.cuda.synchronize(device)
        return time.perf_counter() - started

    call()
    before = 0
    if cuda:
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
    times: list[float] = []
    while len(times) < REPEATS and sum(times) < PATIENCE_S:
        times.append(call())
    peak = torch.cuda.max_memory_allocated(device) - before if cuda else None
    return Measurement(median(times), len(times), peak)
