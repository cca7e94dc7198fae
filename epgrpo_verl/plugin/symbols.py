# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The table of verl symbols that the plugin relies on, and the check that the installed verl has them.

verl moves fast. Every function of verl that a hook wraps, or that the plugin calls, has one row here, with the
parameters it must take. A row that does not hold disables its hook, and using ``ep_grpo`` then raises an error that
names the symbol and the version, rather than training on something else.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from types import ModuleType
from typing import Any

TESTED_VERSIONS = ("0.9.0", "0.9.1", "0.10.0.dev")
"""verl versions whose sources were checked against this table."""

MINIMUM_VERSION = "0.9.0"


@dataclass(frozen=True)
class Symbol:
    """One name of verl that the plugin needs.

    Attributes:
        module: Module that defines it, e.g. ``"verl.trainer.ppo.utils"``.
        attribute: Name in the module, dotted for a method, e.g. ``"PPOTrainer._compute_advantage"``.
        parameters: Parameters that a function must take; empty for anything that is not a function.
        purpose: What the plugin uses it for; shown to the user when it is missing.
        importers: Modules that import the name directly, and so hold a reference of their own.
        optional: True where only one of verl's trainers needs it, and the others work without.
    """

    module: str
    attribute: str
    parameters: tuple[str, ...] = ()
    purpose: str = ""
    importers: tuple[str, ...] = ()
    optional: bool = False

    @property
    def path(self) -> str:
        return f"{self.module}.{self.attribute}"


REGISTRY = Symbol(
    "verl.trainer.ppo.core_algos",
    "register_adv_est",
    ("name_or_enum",),
    "registering the estimator under algorithm.adv_estimator",
)
NEED_REFERENCE = Symbol(
    "verl.trainer.ppo.utils",
    "need_reference_policy",
    ("config",),
    "turning the reference policy on, and checking the config before any model is loaded",
    importers=(
        "verl.trainer.main_ppo",
        "verl.trainer.main_ppo_v0",
        "verl.trainer.ppo.ray_trainer",
        "verl.trainer.ppo.v1.trainer_base",
        "verl.experimental.separation.utils",
        "verl.experimental.one_step_off_policy.main_ppo",
        "verl.experimental.one_step_off_policy.ray_trainer",
        "verl.experimental.fully_async_policy.fully_async_trainer",
    ),
)
COMPUTE_ADVANTAGE = Symbol(
    "verl.trainer.ppo.ray_trainer",
    "compute_advantage",
    ("data", "adv_estimator", "config"),
    "handing old_log_probs and ref_log_prob to the estimator",
    importers=("verl.trainer.ppo.v1.utils", "verl.experimental.separation.ray_trainer"),
)
V1_COMPUTE_ADVANTAGE = Symbol(
    "verl.trainer.ppo.v1.trainer_base",
    "PPOTrainer._compute_advantage",
    ("self", "batch", "metrics"),
    "fetching the actor's entropy for the estimator in the default (V1) trainer",
)

SYMBOLS = (REGISTRY, NEED_REFERENCE, COMPUTE_ADVANTAGE, V1_COMPUTE_ADVANTAGE)


def resolve(module: ModuleType, attribute: str) -> tuple[Any, str, Any]:
    """Find a dotted name in a module.

    Args:
        module: An imported module.
        attribute: ``"function"`` or ``"Class.method"``.

    Returns:
        The object that holds the name, the last part of the name, and its value.

    Raises:
        AttributeError: A part of the name is missing.
    """
    holder: Any = module
    *parents, name = attribute.split(".")
    for parent in parents:
        holder = getattr(holder, parent)
    return holder, name, getattr(holder, name)


def problem(symbol: Symbol, module: ModuleType) -> str | None:
    """Say what is wrong with a symbol in the installed verl.

    Args:
        symbol: The row to check.
        module: The imported module of that row.

    Returns:
        None if the symbol is as the plugin needs it, else one sentence.
    """
    try:
        _, _, value = resolve(module, symbol.attribute)
    except AttributeError:
        return f"{symbol.path} is gone (needed for {symbol.purpose})"
    if symbol.parameters:
        try:
            have = inspect.signature(value).parameters
        except (TypeError, ValueError):
            return f"{symbol.path} is no longer a plain function (needed for {symbol.purpose})"
        lacking = [name for name in symbol.parameters if name not in have]
        if lacking:
            return f"{symbol.path} no longer takes {', '.join(lacking)} (needed for {symbol.purpose})"
    return None
