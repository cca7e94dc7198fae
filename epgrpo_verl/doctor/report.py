# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What a check found, and how it is shown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.markup import escape
from rich.table import Table


class Status(str, Enum):
    """Outcome of one check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


_STYLES = {Status.OK: "green", Status.WARNING: "yellow", Status.FAILED: "bold red"}


@dataclass(frozen=True)
class Check:
    """Outcome of one check.

    Attributes:
        name: What was checked, in a few words. Several findings may share a name.
        status: How it went.
        message: What was found, in whole sentences where something is wrong.
        fix: Lines that mend it: Hydra overrides, or shell commands.
    """

    name: str
    status: Status
    message: str
    fix: tuple[str, ...] = ()


def ok(name: str, message: str) -> Check:
    """A check that found nothing wrong."""
    return Check(name, Status.OK, message)


def warning(name: str, message: str, *fix: str) -> Check:
    """A check that found something to know about; the run would start."""
    return Check(name, Status.WARNING, message, fix)


def failed(name: str, message: str, *fix: str) -> Check:
    """A check that found something that stops the run, or makes it another one than was asked for."""
    return Check(name, Status.FAILED, message, fix)


def apply(config: DictConfig, lines: Iterable[str]) -> None:
    """Apply Hydra overrides such as ``+algorithm.ep_grpo.gamma=5`` to a composed config, in place.

    Args:
        config: A whole verl config.
        lines: Overrides of the form ``key=value``; anything else raises ``HydraException``.
    """
    for override in OverridesParser.create().parse_overrides(list(lines)):
        OmegaConf.update(config, override.key_or_group, override.value(), force_add=True)


def as_number(text: str) -> int | float | None:
    """The number that a text stands for, whole if it is; None if it stands for none."""
    try:
        number = float(text)
    except ValueError:
        return None
    return int(number) if number.is_integer() else number


def worst(checks: Sequence[Check]) -> Status:
    """The most serious status among the checks; ``OK`` for none."""
    order = list(Status)
    return max((check.status for check in checks), key=order.index, default=Status.OK)


def lines_to_mend(checks: Iterable[Check]) -> list[str]:
    """The lines of all fixes, one for each key: a later check knows more than an earlier one."""
    lines = {}
    for line in (line for check in checks for line in check.fix):
        key = line if " " in line else line.lstrip("+").partition("=")[0]
        lines[key] = line
    return list(lines.values())


def as_json(checks: Sequence[Check], versions: dict[str, Any]) -> str:
    """The report for scripts: ``{"status", "versions", "checks": [{"name", "status", "message", "fix"}]}``."""
    report = {"status": worst(checks).value, "versions": versions, "checks": [asdict(check) for check in checks]}
    return json.dumps(report, indent=2)


def show(console: Console, checks: Sequence[Check], versions: dict[str, Any]) -> None:
    """Print the table, then the lines to add, whole and unwrapped so that they can be copied."""
    title = ", ".join(f"{name} {version}" for name, version in versions.items())
    table = Table(title=title, title_justify="left", show_edge=False, pad_edge=False)
    table.add_column("check", no_wrap=True)
    table.add_column("result", no_wrap=True)
    table.add_column("found", overflow="fold")
    for check in checks:
        style = _STYLES[check.status]
        table.add_row(escape(check.name), f"[{style}]{check.status.value}[/]", escape(check.message))
    console.print(table)
    for status, heading in ((Status.FAILED, "To mend what failed"), (Status.WARNING, "To mend what was warned about")):
        lines = lines_to_mend(check for check in checks if check.status is status)
        if lines:
            console.print(f"\n[{_STYLES[status]}]{heading}:[/]")
            for line in lines:
                console.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)
    counts = {status: sum(check.status is status for check in checks) for status in Status}
    console.print("\n" + ", ".join(f"[{_STYLES[s]}]{number} {s.value}[/]" for s, number in counts.items() if number))
