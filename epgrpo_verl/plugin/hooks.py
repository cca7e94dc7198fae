# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Wraps verl's functions as its modules get imported.

The plugin is loaded from inside ``import verl``, when most of verl does not exist yet. So nothing of verl is imported
here: wrapt calls `_on_import` right after a module was executed and before anyone can take a name from it. A module
that was imported earlier, and took the unwrapped function by name, gets its own reference replaced.

With any other estimator each wrapper calls verl's function with the same arguments and returns its result.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from wrapt import register_post_import_hook

from . import ESTIMATOR, EPGRPOPluginError, symbols, transfer_queue
from .estimator import compute_ep_grpo_outcome_advantage
from .feed import Feed, fed_from, feeding
from .preflight import prepare, uses_ep_grpo, warn_once

logger = logging.getLogger("epgrpo_verl")

_MARK = "__ep_grpo_hook__"
_problems: dict[str, str] = {}
_active = False


def _need_reference_policy(wrapped: Callable[..., bool]) -> Callable[..., bool]:
    @functools.wraps(wrapped)
    def need_reference_policy(config: Any, *args: Any, **kwargs: Any) -> bool:
        if uses_ep_grpo(config):
            require_hooks()
        return prepare(config) or wrapped(config, *args, **kwargs)

    return need_reference_policy


def _compute_advantage(wrapped: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(wrapped)
    def compute_advantage(data: Any, adv_estimator: Any, *args: Any, **kwargs: Any) -> Any:
        if adv_estimator != ESTIMATOR:
            return wrapped(data, adv_estimator, *args, **kwargs)
        with feeding(fed_from(data.batch)):
            return wrapped(data, adv_estimator, *args, **kwargs)

    return compute_advantage


def _v1_compute_advantage(wrapped: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(wrapped)
    def _compute_advantage(self: Any, batch: Any, metrics: dict, *args: Any, **kwargs: Any) -> Any:
        if not uses_ep_grpo(self.config):
            return wrapped(self, batch, metrics, *args, **kwargs)
        feed = Feed({"entropy": transfer_queue.get_padded(batch, "entropy")}, list(batch.keys), self.global_steps)
        with feeding(feed):
            result = wrapped(self, batch, metrics, *args, **kwargs)
        metrics.update(feed.metrics)
        return result

    return _compute_advantage


_WRAPPERS: dict[symbols.Symbol, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    symbols.NEED_REFERENCE: _need_reference_policy,
    symbols.COMPUTE_ADVANTAGE: _compute_advantage,
    symbols.V1_COMPUTE_ADVANTAGE: _v1_compute_advantage,
}


def activate() -> None:
    """Register the estimator and the hooks. Calling it again does nothing."""
    global _active
    if _active:
        return
    _active = True
    register_post_import_hook(_register_estimator, symbols.REGISTRY.module)
    for symbol, wrap in _WRAPPERS.items():
        register_post_import_hook(functools.partial(_on_import, symbol, wrap), symbol.module)
        for importer in symbol.importers:
            register_post_import_hook(functools.partial(_rebind, symbol), importer)


def require_hooks() -> None:
    """Raise unless every hook fits the installed verl.

    Raises:
        EPGRPOPluginError: verl is too old, or a function that a hook wraps is gone or has changed.
    """
    from packaging.version import Version

    version = str(getattr(sys.modules.get("verl"), "__version__", "unknown"))
    if version != "unknown" and Version(version) < Version(symbols.MINIMUM_VERSION):
        raise EPGRPOPluginError(
            f"ep_grpo needs verl >= {symbols.MINIMUM_VERSION}; verl {version} is installed. "
            f"Run: pip install 'verl>={symbols.MINIMUM_VERSION}'"
        )
    if _problems:
        raise EPGRPOPluginError(
            f"epgrpo_verl does not fit the installed verl {version}: {'; '.join(_problems.values())}. Other estimators "
            f"work as before. Versions that fit: {', '.join(symbols.TESTED_VERSIONS)}."
        )
    if version not in symbols.TESTED_VERSIONS:
        warn_once(
            f"epgrpo_verl was not tested with verl {version} (tested: {', '.join(symbols.TESTED_VERSIONS)}). "
            "All functions that it hooks are there, so it goes on."
        )


def _note_problem(symbol: symbols.Symbol, problem: str) -> None:
    _problems[symbol.path] = problem
    logger.warning("epgrpo_verl: %s. adv_estimator=%s will stop with an error.", problem, ESTIMATOR)


def _register_estimator(module: ModuleType) -> None:
    problem = symbols.problem(symbols.REGISTRY, module)
    if problem is not None:
        _note_problem(symbols.REGISTRY, problem)
        return
    module.register_adv_est(ESTIMATOR)(compute_ep_grpo_outcome_advantage)


def _on_import(symbol: symbols.Symbol, wrap: Callable, module: ModuleType) -> None:
    """Replace a function of verl by its wrapped form, once."""
    problem = symbols.problem(symbol, module)
    if problem is not None:
        _note_problem(symbol, problem)
        return
    holder, name, value = symbols.resolve(module, symbol.attribute)
    if getattr(value, _MARK, False):
        return
    wrapper = wrap(value)
    setattr(wrapper, _MARK, True)
    setattr(holder, name, wrapper)


def _rebind(symbol: symbols.Symbol, module: ModuleType) -> None:
    """Give a module that took the unwrapped function by name the wrapped one."""
    value = getattr(module, symbol.attribute, None)
    if value is None or getattr(value, _MARK, False):
        return
    source = sys.modules.get(symbol.module)
    wrapper = getattr(source, symbol.attribute, None)
    if getattr(wrapper, "__wrapped__", None) is value:
        setattr(module, symbol.attribute, wrapper)
