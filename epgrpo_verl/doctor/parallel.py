# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Whether models and rollout servers can be split over the GPUs as the config asks.

verl finds these in a worker, after the model has been loaded there, or leaves them to vLLM, which starts later still.
Each rule here mends the config it is given, so that the next ones see a config that could run so far.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from omegaconf import DictConfig, OmegaConf

from ..plugin import preflight
from .batch import GPUS, NODES, Sizes, apply_rules
from .model import model_config
from .report import Check, Status, apply, failed, ok

NAME = "rollout"
HEADS = "attention heads"
ROLLOUT = "actor_rollout_ref.rollout"
ENGINE = f"{ROLLOUT}.name"
TP = f"{ROLLOUT}.tensor_model_parallel_size"
DP = f"{ROLLOUT}.data_parallel_size"
PP = f"{ROLLOUT}.pipeline_model_parallel_size"
POOL_NODES = f"{ROLLOUT}.nnodes"
POOL_GPUS = f"{ROLLOUT}.n_gpus_per_node"
BACKEND = f"{ROLLOUT}.checkpoint_engine.backend"
MAX_LENGTH = f"{ROLLOUT}.max_model_len"
STRATEGY = "actor_rollout_ref.actor.strategy"
ULYSSES = "actor_rollout_ref.actor.ulysses_sequence_parallel_size"
ULYSSES_FSDP = "actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size"
MEGATRON_TP = "actor_rollout_ref.actor.megatron.tensor_model_parallel_size"


def head_checks(config: DictConfig) -> list[Check]:
    """Attention heads are dealt out whole: by vLLM and Megatron for tensor, by verl for sequence parallelism."""
    sizes, model = Sizes(config), model_config(config)
    heads = model.get("num_attention_heads")
    if not isinstance(heads, int):
        return [ok(HEADS, "not known: the model's config.json is not on this machine")]
    kv_heads = model.get("num_key_value_heads") or heads
    checks = []
    for key in (TP, *((MEGATRON_TP,) if sizes[STRATEGY] == "megatron" else (ULYSSES, ULYSSES_FSDP))):
        parts = sizes[key] or 1
        if heads % parts:
            text = f"The model's {heads} attention heads cannot be split into {parts} equal parts ({key})."
            checks.append(failed(HEADS, text, f"{key}={math.gcd(heads, parts)}"))
        elif key in (ULYSSES, ULYSSES_FSDP) and kv_heads % parts and parts % kv_heads:
            text = f"The model's {kv_heads} key-value heads and {parts} parts ({key}) are no multiples of each other."
            checks.append(failed(HEADS, text, f"{key}={math.gcd(kv_heads, parts)}"))
    for check in checks:
        apply(config, check.fix)
    return checks or [ok(HEADS, f"{heads}, which the parallel sizes divide")]


def rollout_checks(config: DictConfig) -> list[Check]:
    """All rules of rollout servers, see `apply_rules`."""
    sizes = Sizes(config)
    checks = apply_rules(_RULES, sizes)
    if any(check.status is Status.FAILED for check in checks):
        return checks
    copies = sizes.gpus // _footprint(sizes)
    where = f"{copies} copies on the GPUs of the actor" if _beside_the_actor(sizes) else "on GPUs of its own"
    return [ok(NAME, f"{_engine(sizes)}, {_footprint(sizes)} GPUs per copy of the model, {where}")]


def _engine(sizes: Sizes) -> str | None:
    """``rollout.name``; None where it has no value, which the check of the config has said."""
    return None if OmegaConf.is_missing(sizes.config.actor_rollout_ref.rollout, "name") else sizes[ENGINE]


def _footprint(sizes: Sizes) -> int:
    """GPUs that one rollout server takes."""
    return sizes[TP] * sizes[DP] * sizes[PP]


def _beside_the_actor(sizes: Sizes) -> bool:
    """Whether rollout servers share the actor's GPUs, as verl decides it."""
    return not sizes.separate_async or preflight.select(sizes.config, "actor_rollout_ref.hybrid_engine", True)


def _verl_reads_it(sizes: Sizes) -> Iterator[Check]:
    """verl's workers make a typed config of this section, which has rules of its own."""
    from verl.utils.config import omega_conf_to_dataclass

    try:
        omega_conf_to_dataclass(sizes.config.actor_rollout_ref.rollout)
    except Exception as error:  # AssertionError, ValueError, NotImplementedError, Hydra's errors around them
        yield failed(NAME, f"verl's workers refuse {ROLLOUT}: {str(error).strip() or repr(error)}")


def _servers_share_the_gpus(sizes: Sizes) -> Iterator[Check]:
    """``ActorRolloutRefWorker.init_model`` asserts this after it has loaded reference and actor."""
    footprint = _footprint(sizes)
    if not _beside_the_actor(sizes) or not sizes.gpus % footprint:
        return
    left, fix = sizes.gpus, []
    for key in (DP, PP, TP):
        fitting = math.gcd(sizes[key], left)
        left //= fitting
        if fitting != sizes[key]:
            fix.append(f"{key}={fitting}")
    yield failed(
        NAME,
        f"{sizes.gpus} GPUs ({NODES} x {GPUS}) cannot be shared by rollout servers of {footprint} GPUs each: tensor x "
        f"data x pipeline parallel size = {sizes[TP]} x {sizes[DP]} x {sizes[PP]}.",
        *fix,
    )


def _separate_servers_have_gpus(sizes: Sizes) -> Iterator[Check]:
    if not sizes.separate_async:
        return
    for key in (POOL_NODES, POOL_GPUS):
        if sizes[key] is None or sizes[key] < 1:
            text = f"trainer_mode=separate_async needs GPUs for its rollout servers, got {key}={sizes[key]}."
            yield failed(NAME, text, f"{key}=1")
    if sizes[BACKEND] == "naive":
        yield failed(
            NAME,
            f"trainer_mode=separate_async sends weights to other GPUs, which {BACKEND}=naive cannot.",
            f"{BACKEND}=nccl",
        )
    pool, footprint = sizes[POOL_NODES] * sizes[POOL_GPUS], _footprint(sizes)
    if pool < footprint:
        yield failed(
            NAME,
            f"The {pool} GPUs of the separate rollout servers ({POOL_NODES} x {POOL_GPUS}) hold none: one takes "
            f"{footprint} GPUs.",
            f"{POOL_NODES}={math.ceil(footprint / sizes[POOL_GPUS])}",
        )


def _servers_fill_their_nodes(sizes: Sizes) -> Iterator[Check]:
    footprint, per_node = _footprint(sizes), sizes[POOL_GPUS] or 1
    if footprint > per_node and footprint % per_node:
        fitting = math.gcd(footprint, per_node)
        yield failed(
            NAME,
            f"A rollout server of {footprint} GPUs does not fill whole nodes of {per_node} GPUs ({POOL_GPUS}).",
            f"{TP}={math.gcd(sizes[TP], fitting)}",
            *(f"{key}=1" for key in (DP, PP) if sizes[key] != 1),
        )


def _model_is_long_enough(sizes: Sizes) -> Iterator[Check]:
    if _engine(sizes) != "vllm":
        return
    longest = model_config(sizes.config).get("max_position_embeddings")
    if isinstance(longest, int) and sizes[MAX_LENGTH] is not None and sizes[MAX_LENGTH] > longest:
        yield failed(
            NAME,
            f"{MAX_LENGTH}={sizes[MAX_LENGTH]}, but the model has {longest} positions.",
            f"{MAX_LENGTH}={longest}",
        )


_RULES: tuple[Callable[[Sizes], Iterator[Check]], ...] = (
    _verl_reads_it,
    _servers_share_the_gpus,
    _separate_servers_have_gpus,
    _servers_fill_their_nodes,
    _model_is_long_enough,
)
