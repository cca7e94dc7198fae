# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Wraps verl's functions as its modules get imported.

The plugin is loaded from inside ``import verl``, when most of verl does not exist yet. So nothing of verl is imported
here: wrapt calls `_on_import` right after a module was executed and before anyone can take a name from it. A module
that was imported earlier, and took the unwrapped function by name, gets its own reference replaced.

A verl that has EP-GRPO itself (patches/) is left alone: no hook, and its own estimator and policy loss. One that is too
old gets a single hook, whose error comes before any model is loaded.
With any other estimator each wrapper calls verl's function with the same arguments and returns its result.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from packaging.version import Version
from wrapt import register_post_import_hook

from . import ESTIMATOR, EPGRPOPluginError, policy_loss, symbols, trainer_v0, trainer_v1
from .estimator import compute_ep_grpo_outcome_advantage
from .preflight import prepare, select, uses_ep_grpo, warn_once

logger = logging.getLogger("epgrpo_verl")

_MARK = "__ep_grpo_hook__"
_problems: dict[symbols.Symbol, str] = {}
_active = False


def _wrap_need_reference_policy(wrapped: Callable[..., bool]) -> Callable[..., bool]:
    @functools.wraps(wrapped)
    def need_reference_policy(config: Any, *args: Any, **kwargs: Any) -> bool:
        if uses_ep_grpo(config):
            require_hooks(config)
        return prepare(config) or wrapped(config, *args, **kwargs)

    return need_reference_policy


WRAPPERS: dict[symbols.Symbol, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    symbols.NEED_REFERENCE: _wrap_need_reference_policy,
    symbols.COMPUTE_ADVANTAGE: trainer_v0.wrap_compute_advantage,
    symbols.V1_COMPUTE_ADVANTAGE: trainer_v1.wrap_compute_advantage,
    symbols.V0_OLD_LOG_PROB: trainer_v0.wrap_compute_old_log_prob,
    symbols.V0_DATA_METRICS: trainer_v0.wrap_compute_data_metrics,
    symbols.LOSS_REGISTRY: policy_loss.wrap_register_policy_loss,
    symbols.PPO_LOSS: policy_loss.wrap_ppo_loss,
}
"""What is wrapped, and how. The other symbols of the table are only called."""


def activate() -> None:
    """Register the estimator and the hooks. Calling it again does nothing.

    Raises:
        EPGRPOPluginError: verl is too old for any of it. Only the hook that stops a run with ``ep_grpo`` is then there.
    """
    global _active
    if _active:
        return
    _active = True
    too_old = _too_old()
    for symbol in [symbols.NEED_REFERENCE] if too_old else symbols.SYMBOLS:
        register_post_import_hook(functools.partial(_on_import, symbol), symbol.module)
        for importer in symbol.importers:
            register_post_import_hook(functools.partial(_rebind, symbol), importer)
    if too_old:
        raise EPGRPOPluginError(too_old)
    register_post_import_hook(_register, symbols.REGISTRY.module)


def _verl_version() -> str:
    return str(getattr(sys.modules.get("verl"), "__version__", "unknown"))


def _too_old() -> str | None:
    """What is wrong with the version of verl, in one sentence; None if it is new enough, or unknown."""
    version = _verl_version()
    if version == "unknown" or Version(version) >= Version(symbols.MINIMUM_VERSION):
        return None
    return (
        f"{ESTIMATOR} needs verl >= {symbols.MINIMUM_VERSION}; verl {version} is installed. "
        f"Run: pip install 'verl>={symbols.MINIMUM_VERSION}'"
    )


def native() -> bool:
    """Whether the installed verl has EP-GRPO itself; known as soon as ``core_algos``, which all others import, is."""
    return hasattr(sys.modules.get(symbols.REGISTRY.module), "compute_ep_grpo_outcome_advantage")


def is_hook(value: Any) -> bool:
    """Whether a function is one of the plugin's wrappers around a function of verl."""
    return getattr(value, _MARK, False)


def unhooked() -> list[str]:
    """Where verl's own function is in use, in the modules that are imported by now, although a hook belongs there.

    Returns:
        Import paths, e.g. ``"verl.trainer.main_ppo.need_reference_policy"``. Functions that cannot be hooked are not
        among them, see `require_hooks`; on a verl that has EP-GRPO itself there are none.
    """
    if native():
        return []
    places = []
    for symbol in WRAPPERS:
        if symbol in _problems:
            continue
        for name in (symbol.module, *symbol.importers):
            try:
                value = symbols.resolve(sys.modules[name], symbol.attribute)[2]
            except (KeyError, AttributeError):  # not imported, or it no longer takes the name
                continue
            if not is_hook(value):
                places.append(f"{name}.{symbol.attribute}")
    return places


def require_hooks(config: Any) -> None:
    """Raise unless every hook that a config needs fits the installed verl.

    Args:
        config: A whole verl config that uses ``ep_grpo``.

    Raises:
        EPGRPOPluginError: verl is too old, or a function that a hook wraps is gone or has changed.
    """
    version = _verl_version()
    too_old = _too_old()
    if too_old:
        raise EPGRPOPluginError(too_old)
    # one_step_off and fully_async have a section `rollout` of their own, and do not look at use_v1.
    v1 = select(config, "trainer.use_v1", True) and select(config, "rollout") is None
    needed = {symbols.ALL, symbols.V1 if v1 else symbols.V0}
    if policy_loss.wants_slope(config):
        needed.add(symbols.LOSS)
    for symbol in symbols.SYMBOLS:
        if symbol.needed_by in needed and not symbols.module_exists(symbol):
            _problems[symbol] = f"{symbol.module} is gone (needed for {symbol.purpose})"
    problems = [text for symbol, text in _problems.items() if symbol.needed_by in needed]
    if problems:
        broken = {symbol.needed_by for symbol in _problems}
        works = [part for part in (symbols.V1, symbols.V0, symbols.LOSS) if not {part, symbols.ALL} & broken]
        raise EPGRPOPluginError(
            f"epgrpo_verl does not fit the installed verl {version}: {'; '.join(problems)}. "
            f"Still working: {', '.join(['other estimators', *works])}. "
            f"Versions that fit: {', '.join(symbols.TESTED_VERSIONS)}."
        )
    if version not in symbols.TESTED_VERSIONS:
        warn_once(
            f"epgrpo_verl was not tested with verl {version} (tested: {', '.join(symbols.TESTED_VERSIONS)}). "
            "All functions that it needs are there, so it goes on."
        )


def _register(module: ModuleType) -> None:
    """Register the estimator and the policy losses with verl, where its registries are as expected."""
    if native():
        logger.info("epgrpo_verl: verl %s has EP-GRPO itself, so nothing is hooked", _verl_version())
        return
    if symbols.REGISTRY not in _problems:
        module.register_adv_est(ESTIMATOR)(compute_ep_grpo_outcome_advantage)
    if symbols.LOSS_REGISTRY not in _problems:
        policy_loss.register_losses(module)


def _on_import(symbol: symbols.Symbol, module: ModuleType) -> None:
    """Check a symbol of verl, and replace it by its wrapped form, once, if it has one."""
    if native():
        return
    problem = symbols.problem(symbol, module)
    if problem is not None:
        _problems[symbol] = problem
        logger.warning("epgrpo_verl: %s. Not working with this verl: %s.", problem, symbol.needed_by)
        return
    holder, name, value = symbols.resolve(module, symbol.attribute)
    wrap = WRAPPERS.get(symbol)
    if wrap is None or is_hook(value):
        return
    wrapper = wrap(value)
    setattr(wrapper, _MARK, True)
    setattr(holder, name, wrapper)


def _rebind(symbol: symbols.Symbol, module: ModuleType) -> None:
    """Give a module that took the unwrapped function by name the wrapped one."""
    value = getattr(module, symbol.attribute, None)
    if value is None or is_hook(value):
        return
    source = sys.modules.get(symbol.module)
    wrapper = getattr(source, symbol.attribute, None)
    if getattr(wrapper, "__wrapped__", None) is value:
        setattr(module, symbol.attribute, wrapper)
