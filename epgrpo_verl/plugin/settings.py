# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The keys of ``algorithm.ep_grpo`` that are about the plugin rather than the maths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from ..algorithm import EPGRPOConfig
from ..algorithm.config import KEY_PREFIX, check_section


@dataclass(frozen=True)
class PluginSettings:
    """How the plugin behaves around the maths.

    Attributes:
        guards: Whether to check what the estimator is given for errors that fail silently elsewhere (see `guards`).

    Raises:
        TypeError: A value has the wrong type.
    """

    guards: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.guards, bool):
            raise TypeError(f"{KEY_PREFIX}.guards must be true or false (not quoted), got {self.guards!r}")


def split_settings(section: Mapping[str, Any] | None) -> tuple[EPGRPOConfig, PluginSettings]:
    """Read the section ``algorithm.ep_grpo`` of a verl config.

    Args:
        section: The section; None gives the defaults.

    Returns:
        The settings of the maths and those of the plugin.

    Raises:
        TypeError: The section is no mapping, or a value has the wrong type.
        ValueError: A key is unknown (the message names the nearest known one), or a value is out of range.
    """
    if section is None:
        return EPGRPOConfig(), PluginSettings()
    if isinstance(section, Mapping):  # a verl that has EP-GRPO itself (patches/) names the class that it builds
        section = {key: value for key, value in section.items() if key != "_target_"}
    plugin_keys = [field.name for field in fields(PluginSettings)]
    check_section(section, [field.name for field in fields(EPGRPOConfig)] + plugin_keys)
    maths = {key: value for key, value in section.items() if key not in plugin_keys}
    plugin = {key: value for key, value in section.items() if key in plugin_keys}
    return EPGRPOConfig.from_config(maths), PluginSettings(**plugin)
