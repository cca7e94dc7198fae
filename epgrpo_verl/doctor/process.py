# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Whether the plugin works in one process. The same function runs in the driver and in Ray workers.

Nothing of the plugin is imported before verl: a plugin that only works because it was imported by hand is not loaded
in a training run.
"""

from __future__ import annotations

import os
import platform
import sys
from importlib import import_module, metadata
from typing import Any

PACKAGE = "epgrpo_verl"
TRAINERS = ("verl.trainer.ppo.v1", "verl.trainer.ppo.ray_trainer", "verl.workers.engine_workers")


def look(config: dict[str, Any]) -> dict[str, Any]:
    """Import verl as a training run does, and look whether the plugin is there and its hooks are in place.

    Args:
        config: A whole verl config as plain containers, so that it travels to a worker.

    Returns:
        ``host``, ``python``, ``verl`` and ``epgrpo_verl`` (versions), ``estimator`` (import path of what is registered
        as ``ep_grpo``, or None), ``problems``, ``fix`` and ``warnings`` (lists of text).
    """
    found: dict[str, Any] = {
        "host": platform.node(),
        "python": platform.python_version(),
        "verl": "unknown",
        PACKAGE: import_module(PACKAGE).__version__,
        "estimator": None,
        "problems": [],
        "warnings": [],
        "fix": [],
    }
    try:
        found["verl"] = str(import_module("verl").__version__)
        for name in TRAINERS:
            import_module(name)
    except Exception as error:  # without the plugin's CPU backend, for one, verl refuses VERL_PLATFORM=cpu
        kept_out = _kept_out()
        text = f"{kept_out[0]} verl can then not be imported" if kept_out else "verl cannot be imported"
        found["problems"].append(f"{text}: {error!r}")
        found["fix"] += [kept_out[1]] if kept_out else []
        return found
    _look_for_estimator(found)
    if not found["problems"]:
        _look_for_hooks(found, config)
    return found


def _look_for_estimator(found: dict[str, Any]) -> None:
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY

    estimator = ADV_ESTIMATOR_REGISTRY.get("ep_grpo")
    if estimator is None:
        problem, fix = _why_not_registered()
        found["problems"].append(f"verl has no estimator ep_grpo in this process: {problem}")
        found["fix"].append(fix)
        return
    found["estimator"] = f"{estimator.__module__}.{estimator.__qualname__}"
    if estimator.__module__ == f"{PACKAGE}.plugin.entry":  # its stand-in, whose call says what went wrong
        try:
            estimator()
        except RuntimeError as error:
            found["problems"].append(str(error))


def _kept_out() -> tuple[str, str] | None:
    """Which environment variable keeps the plugin out, and the line that lets it in; None if none does."""
    policy = os.environ.get("VERL_USE_EXTERNAL_PLUGINS", "auto").strip().lower()
    modules = os.environ.get("VERL_USE_EXTERNAL_MODULES", "")
    if policy == "auto" or PACKAGE in [name.strip() for name in f"{policy},{modules}".split(",")]:
        return None
    line = "auto" if policy == "none" else f"{policy},{PACKAGE}"
    return (
        f"VERL_USE_EXTERNAL_PLUGINS={policy} keeps the plugin out.",
        f"export VERL_USE_EXTERNAL_PLUGINS={line}",
    )


def _why_not_registered() -> tuple[str, str]:
    kept_out = _kept_out()
    if kept_out:
        return kept_out
    if not any(entry.name == PACKAGE for entry in metadata.entry_points(group="verl.plugins")):
        return (
            f"{PACKAGE} can be imported by {sys.executable}, but is not installed there, so verl does not find it.",
            "pip install .  # in a clone of its repository",
        )
    return ("verl did not load it.", f"export VERL_USE_EXTERNAL_MODULES={PACKAGE}")


def _look_for_hooks(found: dict[str, Any], config: dict[str, Any]) -> None:
    from omegaconf import OmegaConf

    from ..plugin import EPGRPOPluginError, hooks
    from .rules import log_of_plugin

    with log_of_plugin() as found["warnings"]:
        try:
            hooks.require_hooks(OmegaConf.create(config))
        except EPGRPOPluginError as error:
            found["problems"].append(str(error))
            return
    unhooked = hooks.unhooked()
    if unhooked:
        found["problems"].append(
            f"verl's own functions are in use where the plugin's hooks should be: {', '.join(unhooked)}. Something "
            "imported verl's trainer before the plugin was loaded, or replaced the functions."
        )
