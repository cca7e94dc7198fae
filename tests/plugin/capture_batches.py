# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Saves what the estimator was given and what it returned, in a real run of verl.

Loaded into every process of the run by ``VERL_USE_EXTERNAL_MODULES=capture_batches``, after the plugin's own hooks and
without changing any value. Each call is one file in the folder ``EPGRPO_CAPTURE``: ``step_<n>.pt``, and where a step
has several calls, ``step_<n>_<k>.pt`` for the later ones.
"""

from __future__ import annotations

import inspect
import os
from types import ModuleType

import torch
from wrapt import register_post_import_hook

_tokens: dict[str, torch.Tensor] = {}


def _watch_transfer_queue(module: ModuleType) -> None:
    get_padded = module.get_padded

    def watched(batch, field):
        # The prompt and response of the same rows, for an independent forward pass.
        for name in ("prompts", "responses"):
            _tokens[name] = get_padded(batch, name)
        return get_padded(batch, field)

    module.get_padded = watched


def _watch_estimator(module: ModuleType) -> None:
    ep_grpo_advantage = module.ep_grpo_advantage

    def watched(*args, **kwargs):
        result = ep_grpo_advantage(*args, **kwargs)
        given = inspect.signature(ep_grpo_advantage).bind(*args, **kwargs).arguments
        path = os.path.join(os.environ["EPGRPO_CAPTURE"], f"step_{given['step']}.pt")
        if os.path.exists(path):  # several mini-batches per step
            path = path.replace(".pt", f"_{len(os.listdir(os.path.dirname(path)))}.pt")
        torch.save({"given": given, "result": result, "tokens": dict(_tokens)}, path)
        return result

    module.ep_grpo_advantage = watched


register_post_import_hook(_watch_transfer_queue, "epgrpo_verl.plugin.transfer_queue")
register_post_import_hook(_watch_estimator, "epgrpo_verl.plugin.estimator")
