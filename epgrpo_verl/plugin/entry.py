# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What verl loads: importing this module activates the plugin.

verl imports it as an entry point of the group ``verl.plugins``, in the driver and in every Ray worker, from inside
``import verl``. verl logs the failure of a plugin at DEBUG level only, so nothing is raised here: a failure is logged
as a warning, and ``ep_grpo`` is registered as an estimator whose call raises the cause.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
from typing import Any, NoReturn

from . import ESTIMATOR, EPGRPOPluginError

logger = logging.getLogger("epgrpo_verl")


def load() -> None:
    """Activate the estimator's hooks, and the CPU backend where there is no accelerator. Safe to call twice."""
    try:
        from .hooks import activate

        activate()
    except Exception as error:
        logger.warning("epgrpo_verl could not be loaded, adv_estimator=%s will not work: %r", ESTIMATOR, error)
        _register_failure(error)
        return
    try:
        from .. import cpu

        if cpu.wanted():
            cpu.activate()
    except Exception as error:
        logger.warning("epgrpo_verl: the CPU backend could not be loaded, runs without a GPU will not work: %r", error)


def _register_failure(cause: Exception) -> None:
    """Register a stand-in for the estimator that says why the real one is not there."""

    def ep_grpo_could_not_be_loaded(*args: Any, **kwargs: Any) -> NoReturn:
        if isinstance(cause, EPGRPOPluginError):
            raise cause
        raise EPGRPOPluginError(
            f"epgrpo_verl could not be loaded in this process ({sys.executable}): {cause!r}. "
            "Run `python -c 'import epgrpo_verl.plugin.hooks'` there to see the whole error."
        ) from cause

    try:
        from verl.trainer.ppo.core_algos import register_adv_est

        register_adv_est(ESTIMATOR)(ep_grpo_could_not_be_loaded)
    except Exception as error:
        logger.warning("epgrpo_verl: the error above could not be registered with verl either: %r", error)


if importlib.util.find_spec("verl") is not None:
    load()
