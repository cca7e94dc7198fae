# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Run verl on a machine without a GPU.

The package registers, through verl's own registries and without editing verl, a platform called ``cpu``, an FSDP2
engine on gloo, a rollout on transformers (``actor_rollout_ref.rollout.name=hf``), what vLLM's CPU build needs, and a
checkpoint engine for disaggregated runs. It stays inactive unless :func:`wanted` says otherwise.

Command line: ``python -m epgrpo_verl.cpu {overrides,env,train}``.

This module imports neither verl nor Ray: Ray unpickles the rollout server by importing this package first, and verl
loads plugins while it is itself half imported.
"""

from .detect import wanted
from .hooks import activate
from .settings import environment, merge_overrides, overrides

__all__ = ["activate", "environment", "merge_overrides", "overrides", "wanted"]
