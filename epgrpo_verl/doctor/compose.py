# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Composes a verl config as ``verl.trainer.main_ppo`` does, and explains why when that fails."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ..plugin import ESTIMATOR
from .report import Check, failed, ok

NAME = "config"
CONFIG_NAME = "ppo_trainer"
_SECTION = f"algorithm.{ESTIMATOR}"
_USED = ("actor_rollout_ref.", "algorithm.", "data.", "trainer.")
_APPEND = re.compile(r"To append to your config use \+(\S+)")
_REMOVE_PLUS = re.compile(r"Either remove \+ prefix: '(.+)'")


def config_folder(config_path: str | None) -> Path:
    """The folder of the primary config.

    Args:
        config_path: As for Hydra: absolute, or relative to the file of ``verl.trainer.main_ppo``; None is verl's own.
    """
    import verl.trainer

    return Path(verl.trainer.__file__).parent / (config_path or "config")


def compose_config(
    overrides: Sequence[str], config_path: str | None = None, config_name: str | None = None
) -> tuple[DictConfig | None, list[Check]]:
    """Compose a verl config.

    An override that Hydra refuses is a failed check. It is mended as the check says, or left out, and composing goes
    on, so that the rest of the config is checked too.

    Args:
        overrides: Hydra overrides, as given to ``python -m verl.trainer.main_ppo``.
        config_path: Hydra's ``--config-path``.
        config_name: Hydra's ``--config-name``; None is ``ppo_trainer``.

    Returns:
        The config, None if there is none to speak of, and what was found.
    """
    folder = config_folder(config_path)
    if not folder.is_dir():
        here = Path(config_path or "").resolve()
        fix = (f"--config-path={here}",) if here.is_dir() else ()
        why = "Hydra reads a relative --config-path from the folder of verl.trainer.main_ppo, so give the whole path."
        return None, [failed(NAME, f"The folder {folder} does not exist. {why}", *fix)]
    checks: list[Check] = []
    remaining = list(overrides)
    tried: list[list[str]] = []
    while remaining not in tried:
        tried.append(list(remaining))
        try:
            config = _compose(folder, config_name, remaining)
        except (HydraException, OmegaConfBaseException) as error:
            position, check, replacement = _explain(str(error), folder, config_name, remaining)
            checks.append(check)
            if position is None:
                return None, checks
            remaining[position : position + 1] = replacement
        else:
            break
    else:
        return None, checks
    checks += _unset(config)
    if not checks:
        source = folder / (config_name or CONFIG_NAME)
        checks.append(ok(NAME, f"{source} with {len(overrides)} overrides"))
    return config, checks


def _compose(folder: Path, config_name: str | None, overrides: list[str]) -> DictConfig:
    with initialize_config_dir(str(folder), version_base=None):
        return compose((config_name or CONFIG_NAME).removesuffix(".yaml"), overrides)


def _explain(
    message: str, folder: Path, config_name: str | None, overrides: list[str]
) -> tuple[int | None, Check, list[str]]:
    """Which override Hydra refused, the check that says so, and what to put in its place."""
    append, remove = _APPEND.search(message), _REMOVE_PLUS.search(message)
    refused = (append or remove or [None, ""])[1]
    places = [i for i, item in enumerate(overrides) if _key(item) == _key(refused)]
    if not places:
        return None, failed(NAME, message.partition("\nConfig search path")[0].strip()), []
    # Of two '+' for one key, the second is refused; of two without, the first.
    position = places[-1] if remove else places[0]
    override = overrides[position]
    if remove:
        text = f"{_key(override)} is in the config already, so it takes no '+'."
        return position, failed(NAME, text, override.lstrip("+")), [override.lstrip("+")]
    if _key(override).startswith(f"{_SECTION}."):
        text = f"{override}: verl's config has no settings of {ESTIMATOR}, so they need a '+' in front."
        return position, failed(NAME, text, f"+{override}"), [f"+{override}"]
    near = _nearest(_key(override), _compose(folder, config_name, []))
    fix = (f"{near}={override.partition('=')[2]}",) if near else ()
    text = f"verl's config has no key {_key(override)}." + (f" Did you mean {near}?" if near else "")
    return position, failed(NAME, text, *fix), []


def _key(override: str) -> str:
    return override.lstrip("+~").partition("=")[0]


def _nearest(key: str, config: DictConfig) -> str | None:
    """The most similar key in the same section of a config."""
    parent, _, name = key.rpartition(".")
    section = OmegaConf.select(config, parent) if parent else config
    if not isinstance(section, DictConfig):
        return None
    near = difflib.get_close_matches(name, [str(item) for item in section], n=1)
    return f"{parent}.{near[0]}" if near and parent else (near[0] if near else None)


def _unset(config: DictConfig) -> list[Check]:
    """Values that verl leaves to the user (``???``), and interpolations that lead nowhere."""
    # Other sections (a reward model, distillation) may be unset, and are then not used.
    missing = [key for key in sorted(OmegaConf.missing_keys(config)) if key.startswith(_USED)]
    checks = [failed(NAME, f"{key} has no value.", f"{key}=...") for key in missing]
    try:
        OmegaConf.to_container(config, resolve=True)
    except OmegaConfBaseException as error:
        checks.append(failed(NAME, str(error).strip()))
    return checks
