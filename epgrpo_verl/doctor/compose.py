# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Composes a verl config as ``verl.trainer.main_ppo`` does, and explains why when that fails."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import InterpolationToMissingValueError, OmegaConfBaseException

from ..plugin import ESTIMATOR
from . import leaves
from .report import Check, failed, ok

NAME = "config"
CONFIG_NAME = "ppo_trainer"
_SECTION = f"algorithm.{ESTIMATOR}"
USED = ("actor_rollout_ref.", "algorithm.", "data.", "trainer.")
"""The sections that a run reads. Others (a reward model, distillation) may have no values, and are then not used."""
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
    on, so that the rest of the config is checked too. So is a value that is missing or refers to nothing.

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
        except (HydraException, OmegaConfBaseException, ValueError) as error:  # ValueError: a section set to a number
            position, check, replacement = _explain(str(error), folder, config_name, remaining)
            checks.append(check)
            if position is None:
                return None, checks
            remaining[position : position + 1] = replacement
        else:
            break
    else:
        return None, checks
    checks += _mend_values(config, lambda: _compose(folder, config_name, _groups(remaining)))
    if not checks:
        source = folder / (config_name or CONFIG_NAME)
        checks.append(ok(NAME, f"{source} with {len(overrides)} overrides"))
    return config, checks


def _compose(folder: Path, config_name: str | None, overrides: list[str]) -> DictConfig:
    with initialize_config_dir(str(folder), version_base=None):
        return compose((config_name or CONFIG_NAME).removesuffix(".yaml"), overrides)


@functools.cache
def verl_config(engine: str | None = None) -> DictConfig:
    """verl's own config with nothing set, for one of its engines. Shared between callers: not to be changed."""
    return _compose(config_folder(None), None, [] if engine is None else [f"model_engine={engine}"])


def _groups(overrides: list[str]) -> list[str]:
    """The overrides that choose parts of the config, such as ``model_engine=megatron``."""
    return [item for item in overrides if "." not in _key(item)]


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


def _mend_values(config: DictConfig, default: Callable[[], DictConfig]) -> list[Check]:
    """Find values that are left to the user (``???``), and interpolations that lead nowhere.

    Each is replaced by its value in ``default()``, which is the config without the user's overrides, or taken out, so
    that what follows has a config that can be read. Where verl itself leaves it to the user, it stays as it is.
    """
    values = leaves.written(config)
    missing = [path for path, value in values.items() if value == "???" and leaves.dotted(path).startswith(USED)]
    texts = {path: f"{leaves.dotted(path)} has no value." for path in missing}
    broken = {path: error for path in values if (error := _unresolved(config, path, bool(missing))) is not None}
    if not missing and not broken:
        return []
    defaults = OmegaConf.to_container(default())
    # A value of verl's that refers to a broken one is broken too, and comes right with it.
    for path in [path for path in broken if values[path] != leaves.at(defaults, path)] or list(broken):
        texts[path] = f"{leaves.dotted(path)}={values[path]} leads nowhere: {broken[path]}."
    for path in texts:
        parent, known = leaves.parent_of(config, path), leaves.at(defaults, path)
        if known is leaves.NOTHING:
            with open_dict(config):
                del parent[path[-1]]
        elif known != values[path]:
            parent[path[-1]] = known
        elif path in broken:
            parent[path[-1]] = None
    plus = {path: "+" if leaves.at(defaults, path) is leaves.NOTHING else "" for path in texts}
    return [failed(NAME, text, f"{plus[path]}{leaves.dotted(path)}=...") for path, text in texts.items()]


def _unresolved(config: DictConfig, path: leaves.Path, missing_are_known: bool) -> str | None:
    """Why an interpolation cannot be resolved; None if it can, or if the value is none."""
    parent = leaves.parent_of(config, path)
    if not path or not OmegaConf.is_interpolation(parent, path[-1]):
        return None
    try:
        value = parent[path[-1]]
        if OmegaConf.is_config(value):
            OmegaConf.to_container(value, resolve=True)
    except InterpolationToMissingValueError as error:
        return None if missing_are_known else _first_line(error)
    except OmegaConfBaseException as error:
        return _first_line(error)
    return None


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")
