# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The keys of ``algorithm.ep_grpo`` that are about the plugin rather than the maths."""

from __future__ import annotations

import math
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
        trace_dir: Folder of token traces (docs/trace.md); None writes none.
        trace_every: Step 1 and the multiples of this are traced, at least 1.
        trace_groups: Groups that are drawn from each of those steps, at least 1.
        trace_max_mb: Total size of the trace files, in 10^6 bytes, above 0.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: A value is out of range.
    """

    guards: bool = True
    trace_dir: str | None = None
    trace_every: int = 10
    trace_groups: int = 4
    trace_max_mb: float = 100.0

    def __post_init__(self) -> None:
        if not isinstance(self.guards, bool):
            raise TypeError(f"{KEY_PREFIX}.guards must be true or false (not quoted), got {self.guards!r}")
        if self.trace_dir is not None and not (isinstance(self.trace_dir, str) and self.trace_dir.strip()):
            raise TypeError(f"{KEY_PREFIX}.trace_dir must be the path of a folder, or null, got {self.trace_dir!r}")
        for name in ("trace_every", "trace_groups"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{KEY_PREFIX}.{name} must be an integer, got {value!r}")
            if value < 1:
                raise ValueError(f"{KEY_PREFIX}.{name} must be at least 1, got {value!r}")
        size = self.trace_max_mb
        if isinstance(size, bool) or not isinstance(size, int | float):
            raise TypeError(f"{KEY_PREFIX}.trace_max_mb must be a number, got {size!r}")
        if not 0 < size < math.inf:
            raise ValueError(f"{KEY_PREFIX}.trace_max_mb must be above 0 and finite, got {size!r}")


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
