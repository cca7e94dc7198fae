# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The table of verl symbols that the plugin relies on, and the check that the installed verl has them.

verl moves fast. Every function of verl that a hook wraps, or that the plugin calls, has one row here, with the
parameters it must take. A row that does not hold disables its hook, and using what needs it then raises an error that
names the symbol, the version and what still works, rather than training on something else. The table is the same for
all of `TESTED_VERSIONS`.
"""

from __future__ import annotations

import importlib.util
import inspect
from dataclasses import dataclass
from types import ModuleType
from typing import Any

TESTED_VERSIONS = ("0.9.0", "0.9.1", "0.10.0.dev")
"""The versions of verl that `SYMBOLS` was held against, oldest first. A newer one is held to the same table."""
MINIMUM_VERSION = TESTED_VERSIONS[0]

ALL = "ep_grpo"
V1 = "ep_grpo in the V1 trainers (trainer.use_v1=True)"
V0 = "ep_grpo in the trainers on DataProto (trainer.use_v1=False, one_step_off, fully_async)"
LOSS = "policy_loss.loss_mode=ep_grpo"


@dataclass(frozen=True)
class Symbol:
    """One name of verl that the plugin needs.

    Attributes:
        module: Module that defines it, e.g. ``"verl.trainer.ppo.utils"``.
        attribute: Name in the module, dotted for a method, e.g. ``"PPOTrainer._compute_advantage"``.
        parameters: Parameters that a function must take; empty for anything that is not a function.
        purpose: What the plugin uses it for; shown to the user when it is missing.
        importers: Modules that import the name directly, and so hold a reference of their own.
        needed_by: What does not work without it: `ALL`, `V1`, `V0` or `LOSS`. Everything else still does.
    """

    module: str
    attribute: str
    parameters: tuple[str, ...] = ()
    purpose: str = ""
    importers: tuple[str, ...] = ()
    needed_by: str = ALL

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
    "fetching the actor's entropy for the estimator",
    needed_by=V1,
)
V1_GET = Symbol(
    "transfer_queue",
    "kv_batch_get",
    ("keys", "partition_id", "select_fields"),
    "fetching the actor's entropy for the estimator",
    needed_by=V1,
)
V1_PUT = Symbol(
    "transfer_queue",
    "kv_batch_put",
    ("keys", "partition_id", "fields"),
    "sending the slope of the progress term to the policy loss",
    needed_by=LOSS,
)
V0_OLD_LOG_PROB = Symbol(
    "verl.trainer.ppo.ray_trainer",
    "RayPPOTrainer._compute_old_log_prob",
    ("self", "batch"),
    "keeping the actor's entropy for the estimator",
    needed_by=V0,
)
V0_DATA_METRICS = Symbol(
    "verl.trainer.ppo.metric_utils",
    "compute_data_metrics",
    ("batch",),
    "handing the estimator's metrics to the logger",
    importers=(
        "verl.trainer.ppo.ray_trainer",
        "verl.trainer.ppo.v1.trainer_base",
        "verl.experimental.separation.ray_trainer",
    ),
    needed_by=V0,
)
LOSS_REGISTRY = Symbol(
    "verl.trainer.ppo.core_algos",
    "register_policy_loss",
    ("name",),
    "registering the policy losses ep_grpo and ep_grpo/<name>",
    needed_by=LOSS,
)
LOSS_LOOKUP = Symbol(
    "verl.trainer.ppo.core_algos",
    "get_policy_loss_fn",
    ("name",),
    "finding the policy loss under the hook",
    needed_by=LOSS,
)
PPO_LOSS = Symbol(
    "verl.workers.utils.losses",
    "ppo_loss",
    ("config", "model_output", "data"),
    "handing the slope of the progress term to the policy loss",
    importers=("verl.workers.engine_workers", "verl.trainer.distillation.losses"),
    needed_by=LOSS,
)

SYMBOLS: tuple[Symbol, ...] = (
    REGISTRY,
    NEED_REFERENCE,
    COMPUTE_ADVANTAGE,
    V1_COMPUTE_ADVANTAGE,
    V1_GET,
    V1_PUT,
    V0_OLD_LOG_PROB,
    V0_DATA_METRICS,
    LOSS_REGISTRY,
    LOSS_LOOKUP,
    PPO_LOSS,
)
"""All that the plugin needs from verl."""


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


def module_exists(symbol: Symbol) -> bool:
    """Whether the module of a symbol can be imported; only its parent packages are imported to find out."""
    try:
        return importlib.util.find_spec(symbol.module) is not None
    except ModuleNotFoundError:
        return False


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
