# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Estimator, settings, the rules that the plugin applies at the start of a run, and verl's own validation."""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import re
import warnings
from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from ..algorithm import EPGRPOConfig
from ..plugin import ESTIMATOR, EPGRPOPluginError, preflight
from ..plugin.settings import PluginSettings
from .report import Check, apply, failed, ok, warning

SECTION = f"algorithm.{ESTIMATOR}"
USE_ESTIMATOR = f"algorithm.adv_estimator={ESTIMATOR}"

TOPICS = {
    "bypass mode": "algorithm.rollout_correction.bypass_mode",
    "policy loss": "actor_rollout_ref.actor.policy_loss.loss_mode",
    "group filtering": "algorithm.filter_groups.enable",
    "KL in reward": "algorithm.use_kl_in_reward",
    "group size": "actor_rollout_ref.rollout.n",
    "LoRA start": "actor_rollout_ref.model.lora_adapter_path",
}
"""The rows of the plugin's own rules, each with the key that its messages name."""

_FIX = re.compile(r"\b[Ss]et (\+?[\w.]+=\S+?)[.,;]?(?:\s|$)")
_MAX_REPAIRS = 10


def estimator_check(config: DictConfig) -> Check:
    """Whether the config uses EP-GRPO. Another estimator is a baseline, if nothing says that EP-GRPO was meant."""
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY

    name = str(preflight.select(config, "algorithm.adv_estimator"))
    this = f"algorithm.adv_estimator={name}"
    if preflight.uses_ep_grpo(config):
        return ok("estimator", this)
    if name not in ADV_ESTIMATOR_REGISTRY:
        return failed("estimator", f"{this}: verl knows no such estimator.", USE_ESTIMATOR)
    if preflight.select(config, SECTION) is not None:
        return failed("estimator", f"{this}, so the settings {SECTION} have no effect.", USE_ESTIMATOR)
    if name == "gae":
        return failed("estimator", f"{this} is verl's default: nothing turns EP-GRPO on.", USE_ESTIMATOR)
    return warning("estimator", f"{this}: a baseline, EP-GRPO is not used.", USE_ESTIMATOR)


def settings_checks(config: DictConfig) -> list[Check]:
    """Every setting of ``algorithm.ep_grpo`` by itself; wrong ones are taken out of the config."""
    section = preflight.select(config, SECTION)
    if section is None:
        return [ok("settings", f"{SECTION} is not set: the defaults are used")]
    if not isinstance(section, DictConfig):
        config.algorithm[ESTIMATOR] = {}
        return [failed("settings", f"{SECTION} must hold settings, got {section!r}.", f"+{SECTION}.gamma=5.0")]
    checks = []
    for key in list(section):
        try:
            preflight.settings({ESTIMATOR: {key: section[key]}})
        except EPGRPOPluginError as error:
            checks.append(failed("settings", str(error), _mended_setting(str(key), section[key], str(error))))
            with open_dict(section):
                del section[key]
    values = ", ".join(f"{key}={value}" for key, value in section.items())
    return checks or [ok("settings", values or "the defaults are used")]


def _mended_setting(key: str, value: Any, message: str) -> str:
    meant = re.search(r"did you mean ([\w.]+)\?", message)
    if meant:
        return f"+{meant[1]}={value}"
    default = next(field.default for field in (*fields(EPGRPOConfig), *fields(PluginSettings)) if field.name == key)
    assert default is not MISSING
    return f"+{SECTION}.{key}={'null' if default is None else default}"


def preflight_checks(config: DictConfig) -> list[Check]:
    """The plugin's own rules, those that stop a run and those that warn; refused values are mended in the config."""
    checks = []
    for _ in range(_MAX_REPAIRS):
        with log_of_plugin() as messages:
            try:
                preflight.prepare(config)
            except EPGRPOPluginError as error:
                fix = _fix_in(str(error))
                checks.append(failed(_topic_of(str(error)), str(error), *fix))
                if not fix:
                    break
                apply(config, [fix[0].partition("/<")[0]])  # a choice "ep_grpo/<name>" goes on as "ep_grpo"
                continue
        checks += [warning(_topic_of(text), text, *_fix_in(text)) for text in messages]
        break
    found = {check.name for check in checks}
    if preflight.uses_ep_grpo(config):
        checks += [
            ok(name, f"{key}={preflight.select(config, key)}") for name, key in TOPICS.items() if name not in found
        ]
    return sorted(checks, key=lambda check: [*TOPICS, check.name].index(check.name))


@contextlib.contextmanager
def log_of_plugin() -> Iterator[list[str]]:
    """Collect what the plugin warns about, rather than have it printed."""
    messages: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    logger, collector = preflight.logger, Collector(logging.WARNING)
    propagate = logger.propagate
    preflight.warn_once.cache_clear()
    logger.addHandler(collector)
    logger.propagate = False
    try:
        yield messages
    finally:
        logger.removeHandler(collector)
        logger.propagate = propagate


def _topic_of(message: str) -> str:
    for name, key in TOPICS.items():
        if re.search(rf"\b{re.escape(key)}(?![\w.])", message):
            return name
    return "plugin"


def _fix_in(message: str) -> tuple[str, ...]:
    """The line that a message of the plugin tells the user to set."""
    found = _FIX.search(message)
    if not found:
        return ()
    # verl's config has no such section, so Hydra wants a plus.
    return (f"+{found[1]}" if found[1].startswith(f"{SECTION}.") else found[1],)


def verl_check(config: DictConfig) -> Check:
    """verl's own validation, as ``verl.trainer.main_ppo`` runs it before anything else."""
    import verl.trainer.main_ppo as main_ppo

    name = "verl's own checks"
    # For this check only: verl would import vLLM to look up the LoRA rank, which `model.lora_check` does without.
    config = copy.deepcopy(config)
    OmegaConf.update(config, "actor_rollout_ref.model.lora.merge", True, force_add=True)
    try:
        with contextlib.redirect_stdout(io.StringIO()), log_of_plugin(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            main_ppo.validate_config(
                config=config,
                use_reference_policy=main_ppo.need_reference_policy(config),
                use_critic=main_ppo.need_critic(config),
            )
    except Exception as error:  # verl raises whatever suits the place: AssertionError, ValueError, Hydra's errors
        return failed(name, f"{str(error).strip() or repr(error)}")
    return ok(name, "passed")
