# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Whether values are of the type, and in the range, that verl reads them as.

Most of verl's config has no types: ``optim.lr=fast`` composes, and fails in a worker after the model was loaded. What
a value should be is read off verl's own config: a number where that has a number, true or false where it has those.
"""

from __future__ import annotations

import math
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from . import leaves
from .batch import COUNTS
from .compose import USED, verl_config
from .report import Check, as_number, failed, ok

NAME = "values"

_ACTOR, _ROLLOUT, _MODEL = (f"actor_rollout_ref.{part}" for part in ("actor", "rollout", "model"))
_SEEDS = ("data.seed", f"{_ACTOR}.data_loader_seed", f"{_ROLLOUT}.seed")
_AT_LEAST_1 = (
    "data.max_prompt_length",
    "data.max_response_length",
    "trainer.total_epochs",
    "trainer.total_training_steps",
    "trainer.max_actor_ckpt_to_keep",
    "trainer.v1.separate_async.parameter_sync_step",
    f"{_ACTOR}.ppo_epochs",
    f"{_ACTOR}.ppo_max_token_len_per_gpu",
    f"{_ACTOR}.ulysses_sequence_parallel_size",
    f"{_ACTOR}.fsdp_config.ulysses_sequence_parallel_size",
    f"{_ACTOR}.megatron.tensor_model_parallel_size",
    f"{_ACTOR}.megatron.pipeline_model_parallel_size",
    f"{_ACTOR}.megatron.context_parallel_size",
    f"{_ROLLOUT}.tensor_model_parallel_size",
    f"{_ROLLOUT}.data_parallel_size",
    f"{_ROLLOUT}.pipeline_model_parallel_size",
    f"{_ROLLOUT}.log_prob_max_token_len_per_gpu",
    "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu",
)
LEAST = {
    **dict.fromkeys(_AT_LEAST_1, 1),
    **dict.fromkeys((*_SEEDS, f"{_MODEL}.lora_rank", f"{_MODEL}.lora.rank"), 0),
    "trainer.save_freq": -1,
    "trainer.test_freq": -1,
}
"""Whole numbers, and the least that each may be. The sizes of batches are in `batch.COUNTS`."""
LEARNING_RATE = f"{_ACTOR}.optim.lr"
GPU_SHARE = f"{_ROLLOUT}.gpu_memory_utilization"

ALSO_TEXT = ("algorithm.rollout_correction.rollout_is_threshold",)
"""Numbers in verl's own config where verl reads a text too."""


def value_checks(config: DictConfig) -> list[Check]:
    """All values that verl cannot work with. Each is replaced by the one that its check proposes, or by verl's own."""
    checks = []
    strategy = _value_at(config, ("actor_rollout_ref", "actor", "strategy"))
    default = verl_config("megatron" if strategy == "megatron" else None)
    for path in leaves.written(config):
        key, parent = leaves.dotted(path), leaves.parent_of(config, path)
        if not key.startswith(USED) or key in (*COUNTS, *ALSO_TEXT) or OmegaConf.is_missing(parent, path[-1]):
            continue
        value, expected = parent[path[-1]], _value_at(default, path)
        if isinstance(expected, DictConfig):
            if value is not None and not isinstance(value, DictConfig):
                names = ", ".join(f"{key}.{name}" for name in list(expected)[:2])
                text = f"{key}={value!r}: this is a section. Leave that line out and set its keys, such as {names}."
                checks.append(failed(NAME, text))
                parent[path[-1]] = expected
        elif (why := _why_wrong(key, value, expected)) is not None:
            better = _better(key, value, expected)
            shown = "null" if value is None else repr(value)
            checks.append(failed(NAME, f"{key}={shown}: {why}.", f"{key}={better}"))
            parent[path[-1]] = better
    return checks or [ok(NAME, "of the types that verl expects, and in range")]


def _value_at(config: DictConfig, path: leaves.Path) -> Any:
    """What a config has at a path; None if it has nothing there, or nothing that can be resolved."""
    node: Any = config
    try:
        for key in path:
            node = node[key]
    except (OmegaConfBaseException, LookupError, TypeError):
        return None
    return node


def _why_wrong(key: str, value: Any, expected: Any) -> str | None:
    if value is None:
        required = key in LEAST and expected is not None and key not in _SEEDS
        return "verl needs a number there" if required else None
    if isinstance(expected, bool):
        return "verl needs True or False there, and this is text" if isinstance(value, str) else None
    if key not in LEAST and not isinstance(expected, (int, float)):
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "verl needs a number there, and this is " + ("text" if isinstance(value, str) else "none")
    if math.isnan(value):
        return "verl needs a number there"
    if key in LEAST and (not isinstance(value, int) or value < LEAST[key]):
        return f"it must be an integer of at least {LEAST[key]}"
    if key == LEARNING_RATE and value < 0:
        return "a learning rate cannot be negative"
    if key == GPU_SHARE and not 0 < value <= 1:
        return "it must be above 0, and 1 at most"
    return None


def _better(key: str, value: Any, expected: Any) -> Any:
    """A value that passes: what was meant, if that can be told, or verl's own, or the least."""
    text = str(value).strip()
    meant: Any = {"true": True, "false": False}.get(text.lower()) if isinstance(expected, bool) else as_number(text)
    for candidate in (meant, expected, LEAST.get(key)):
        if candidate is not None and _why_wrong(key, candidate, expected) is None:
            return candidate
    raise AssertionError(f"{key} has no value that passes")
