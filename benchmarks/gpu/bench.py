# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Measures all parts on a device, and puts them together to a step."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from importlib.metadata import version
from itertools import chain
from typing import Any

import torch

from benchmarks.gpu import parts
from benchmarks.gpu.measure import Measurement, measure
from benchmarks.gpu.sizes import Sizes, build_model

STEPS = {
    "grpo": ("old_log_prob", "advantage/grpo", "update/vanilla"),
    "ep_grpo": ("old_log_prob", "ref_log_prob", "advantage/ep_grpo", "update/vanilla"),
    "ep_grpo, policy-loss hook": ("old_log_prob", "ref_log_prob", "advantage/ep_grpo_slope", "update/ep_grpo"),
}
"""What a step without generation is made of. verl's defaults: entropy at once, no KL term for GRPO."""

Part = tuple[str, torch.device, Callable[[], Any]]
"""Name, device whose clock and memory count, and what to call."""


def entropy_parts(sizes: Sizes, device: torch.device, dtype: torch.dtype) -> Iterator[Part]:
    """Gives the two ways to the entropy of some tokens."""
    logits = parts.make_logits(sizes.entropy_tokens, sizes.vocabulary, device, dtype)
    for name, chunked in (("at once", False), (f"in chunks of {parts.CHUNK}", True)):
        yield f"entropy/{name}", device, lambda chunked=chunked: parts.entropy(logits, chunked)


def advantage_parts(sizes: Sizes, device: torch.device) -> Iterator[Part]:
    """Gives the estimators on batches of some sizes, on the CPU, where verl's trainer calls them, and on the device."""
    places = [torch.device("cpu")] + ([device] if device.type != "cpu" else [])
    for rows, columns in sizes.advantage:
        for place in places:
            batch = parts.make_batch(rows, columns, 8, place)
            for name in ("grpo", "grpo_vectorized", "ep_grpo"):
                yield (
                    f"advantage {rows}x{columns} on {place.type}/{name}",
                    place,
                    lambda name=name, batch=batch: parts.advantage(name, batch),
                )


def step_parts(sizes: Sizes, device: torch.device, dtype: torch.dtype) -> Iterator[Part]:
    """Gives the parts of a step, named as in :data:`STEPS`."""
    cpu = torch.device("cpu")
    step = parts.Step(build_model(sizes, device, dtype), build_model(sizes, device, dtype), sizes, device)
    yield "old_log_prob", device, lambda: step.old_log_prob(chunked=False)
    yield "old_log_prob, entropy in chunks", device, lambda: step.old_log_prob(chunked=True)
    yield "ref_log_prob", device, step.ref_log_prob
    batch = parts.make_batch(sizes.rows, sizes.response, sizes.group, cpu)
    batch["response_mask"] = torch.ones_like(batch["response_mask"])  # as in the passes: full rows
    batch |= step.old_log_prob(chunked=False) | step.ref_log_prob()
    yield "advantage/grpo", cpu, lambda: parts.advantage("grpo", batch)
    yield "advantage/ep_grpo", cpu, lambda: parts.advantage("ep_grpo", batch)
    yield "advantage/ep_grpo_slope", cpu, lambda: parts.advantage("ep_grpo", batch, wants_slope=True)
    base = {name: batch[name] for name in ("response_mask", "old_log_probs")}
    plain = base | parts.advantage("grpo", batch)
    yield "update/vanilla", device, lambda: step.update("vanilla", plain)
    hooked = base | parts.advantage("ep_grpo", batch, wants_slope=True)
    yield "update/ep_grpo", device, lambda: step.update("ep_grpo", hooked)


def about(device: torch.device, dtype: torch.dtype, sizes: Sizes) -> dict[str, Any]:
    """Says what was measured, where and with what."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    packages = {package: version(package) for package in ("torch", "transformers", "verl")}
    return {
        "device": device.type,
        "device_name": name,
        "dtype": str(dtype).removeprefix("torch."),
        "cpu_threads": torch.get_num_threads(),
        "versions": {"python": platform.python_version(), "cuda": torch.version.cuda, **packages},
        "sizes": asdict(sizes),
    }


def run(
    sizes: Sizes,
    device: torch.device,
    dtype: torch.dtype,
    budget_s: float,
    on_part: Callable[[str], None] = lambda name: None,
) -> dict[str, Any]:
    """Measures everything.

    Args:
        sizes: Model and batches.
        device: A GPU or the CPU.
        dtype: Of the model and of the logits.
        budget_s: Seconds after which no further part is begun.
        on_part: Called with the name of each part before it is measured.

    Returns:
        ``about``, ``parts`` (name to seconds, calls, extra bytes), ``ended_before`` (the first part for which there was
        no time, or None) and ``steps`` (see :func:`compose`).
    """
    started = time.monotonic()
    measured: dict[str, Measurement] = {}
    ended_before = None
    # The step first: it is what the benchmark is for.
    for name, place, function in chain(
        step_parts(sizes, device, dtype), entropy_parts(sizes, device, dtype), advantage_parts(sizes, device)
    ):
        if time.monotonic() - started > budget_s:
            ended_before = name
            break
        on_part(name)
        measured[name] = measure(function, place)
    return {
        "about": about(device, dtype, sizes),
        "parts": {name: asdict(value) for name, value in measured.items()},
        "ended_before": ended_before,
        "steps": compose({name: value.seconds for name, value in measured.items()}),
    }


def compose(seconds: dict[str, float]) -> dict[str, dict[str, float]]:
    """Adds the parts up to steps, and divides by GRPO's.

    Args:
        seconds: Part to seconds.

    Returns:
        Step of :data:`STEPS` to ``seconds`` and ``over_grpo``; a step is left out where a part was not measured.
    """
    totals = {
        name: sum(seconds[part] for part in needed) for name, needed in STEPS.items() if seconds.keys() >= set(needed)
    }
    return {
        name: {"seconds": total, "over_grpo": total / totals["grpo"]}
        for name, total in totals.items()
        if "grpo" in totals
    }
