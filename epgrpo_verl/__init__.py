# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""EP-GRPO (arXiv 2605.04960) for verl: token-level credit for GRPO, as an out-of-tree plugin.

verl imports this package while it is itself half imported, so nothing heavy is loaded here: the public names
are resolved on first use (PEP 562).
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .algorithm import EPGRPOConfig, EPGRPOResult, ep_grpo_advantage, ep_grpo_metrics

__version__ = "0.1.0"

__all__ = ["EPGRPOConfig", "EPGRPOResult", "__version__", "ep_grpo_advantage", "ep_grpo_metrics"]

_LAZY = {
    "EPGRPOConfig": ".algorithm",
    "EPGRPOResult": ".algorithm",
    "ep_grpo_advantage": ".algorithm",
    "ep_grpo_metrics": ".algorithm",
}


def __getattr__(name: str) -> Any:
    """Loads a public name from its module on first use."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


if __name__ in os.environ.get("VERL_USE_EXTERNAL_MODULES", "").split(","):
    # That is how verl was told to load the plugin: it imports this package and nothing else. Without it, importing the
    # package changes nothing, and verl finds the plugin by its entry point.
    import_module(".plugin.entry", __name__)
