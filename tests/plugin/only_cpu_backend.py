# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Loads the CPU backend without the plugin's hooks: ``VERL_USE_EXTERNAL_MODULES=only_cpu_backend``.

Each process that imports verl's trainer or its workers says whether the hooks are there all the same.
"""

from __future__ import annotations

import sys
from types import ModuleType

from wrapt import register_post_import_hook

from epgrpo_verl import cpu


def _say(module: ModuleType) -> None:
    state = "with" if "epgrpo_verl.plugin.hooks" in sys.modules else "without"
    print(f"{module.__name__} {state} hooks", flush=True)


cpu.activate()
for name in ("verl.trainer.ppo.ray_trainer", "verl.workers.engine_workers"):
    register_post_import_hook(_say, name)
