# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Whether the batch sizes divide as verl needs them to.

verl counts ``train_batch_size`` and ``ppo_mini_batch_size`` in prompts, ``*_micro_batch_size_per_gpu`` in responses.
Some of what does not divide is found by verl at the start, the rest in the middle of the first step, by an assertion
in a worker. Each rule here mends the config it is given, so that the next ones see a config that could run so far.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from omegaconf import DictConfig

from ..plugin import preflight
from .passes import ref_in_actor
from .report import Check, Status, apply, as_number, failed, ok, warning

NAME = "batch sizes"
TRAIN = "data.train_batch_size"
N = "actor_rollout_ref.rollout.n"
MINI = "actor_rollout_ref.actor.ppo_mini_batch_size"
MICRO = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"
OLD_MICRO = "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu"
REF_MICRO = "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu"
GPUS = "trainer.n_gpus_per_node"
NODES = "trainer.nnodes"
DYNAMIC = "actor_rollout_ref.actor.use_dynamic_bsz"
OLD_DYNAMIC = "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz"
SYNC_STEP = "trainer.v1.separate_async.parameter_sync_step"
COUNTS = (TRAIN, N, MINI, GPUS, NODES, MICRO, OLD_MICRO, REF_MICRO)
"""What must be whole numbers of at least 1."""
_MICRO = (MICRO, OLD_MICRO, REF_MICRO)
BUDGETS = (
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu",
    "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu",
    "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu",
)


class Sizes:
    """The numbers of a config, read anew at each access because rules change them."""

    def __init__(self, config: DictConfig):
        self.config = config

    def __getitem__(self, key: str) -> Any:
        return preflight.select(self.config, key)

    @property
    def dynamic(self) -> bool:
        return bool(self[DYNAMIC])

    @property
    def gpus(self) -> int:
        return self[GPUS] * self[NODES]

    @property
    def model_parallel(self) -> int:
        """GPUs that share one sequence or one copy of the model, so that do not take rows of their own."""
        actor = self.config.actor_rollout_ref.actor
        if actor.strategy == "megatron":
            names = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size")
            return math.prod(preflight.select(actor, f"megatron.{name}", 1) for name in names)
        return self.sequence_parallel

    @property
    def sequence_parallel(self) -> int:
        actor = self.config.actor_rollout_ref.actor
        names = ("ulysses_sequence_parallel_size", "fsdp_config.ulysses_sequence_parallel_size")
        return max(preflight.select(actor, name, 1) for name in names)

    @property
    def data_parallel(self) -> int:
        return max(1, self.gpus // self.model_parallel)

    @property
    def batch(self) -> int:
        """Prompts in one batch of the trainer: a training step takes several in ``separate_async``."""
        return self[TRAIN] // (self[SYNC_STEP] if self.separate_async else 1)

    @property
    def v1(self) -> bool:
        return bool(preflight.select(self.config, "trainer.use_v1", True))

    @property
    def separate_async(self) -> bool:
        return self.v1 and self["trainer.v1.trainer_mode"] == "separate_async"

    @property
    def rows_per_gpu(self) -> int:
        """Responses per GPU in the passes over the whole batch, after V1's padding rows."""
        rows = self.batch * self[N]
        if self.v1:
            unit = math.lcm(self.data_parallel, self[MINI] * self[N])
            rows = math.ceil(rows / unit) * unit
        return rows // self.data_parallel


def apply_rules(rules: Iterable[Callable[[Sizes], Iterator[Check]]], sizes: Sizes) -> list[Check]:
    """What the rules found, in order; each mends in place what it found to fail."""
    checks: list[Check] = []
    for rule in rules:
        for check in rule(sizes):
            checks.append(check)
            if check.status is Status.FAILED:
                apply(sizes.config, check.fix)
    return checks


def batch_checks(config: DictConfig) -> list[Check]:
    """All rules of batch sizes, see `apply_rules`."""
    sizes = Sizes(config)
    checks = apply_rules(_RULES, sizes)
    if checks:
        return checks
    split = "by tokens" if sizes.dynamic else f"micro-batches of {sizes[MICRO]}"
    return [
        ok(
            NAME,
            f"{sizes[TRAIN]} prompts x {sizes[N]} responses, mini-batches of {sizes[MINI]} prompts, {split}, "
            f"GPUs: {sizes.gpus}",
        )
    ]


def _positive(sizes: Sizes) -> Iterator[Check]:
    for key in COUNTS:
        value = sizes[key]
        if _is_count(value) or (key in _MICRO and (sizes.dynamic or value is None)):
            continue
        shown = "null" if value is None else repr(value)
        meant = as_number(str(value))
        likely = (meant, sizes[{TRAIN: MINI, MINI: TRAIN}.get(key, key)])
        better = next((number for number in likely if _is_count(number)), 1)
        yield failed(NAME, f"{key}={shown} must be an integer of at least 1.", f"{key}={better}")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _micro_batches_are_set(sizes: Sizes) -> Iterator[Check]:
    if sizes.dynamic:
        return
    for key in (MICRO, OLD_MICRO, REF_MICRO):
        if key == REF_MICRO and (ref_in_actor(sizes.config) or not _reference_in_use(sizes.config)):
            continue
        if sizes[key] is None and sizes[key.removesuffix("_per_gpu")] is None:
            like = next((sizes[other] for other in (MICRO, OLD_MICRO) if sizes[other] is not None), 1)
            yield failed(NAME, f"{key} has no value, and {DYNAMIC} is off.", f"{key}={like}")


def _reference_in_use(config: DictConfig) -> bool:
    import verl.trainer.main_ppo as main_ppo

    return bool(main_ppo.need_reference_policy(config))


def _gpus_hold_whole_models(sizes: Sizes) -> Iterator[Check]:
    parallel = sizes.model_parallel
    if sizes.gpus % parallel:
        per_node = parallel // math.gcd(parallel, sizes[NODES])
        yield failed(
            NAME,
            f"{sizes.gpus} GPUs cannot be shared by copies of the model that take {parallel} GPUs each.",
            f"{GPUS}={math.ceil(sizes[GPUS] / per_node) * per_node}",
        )


def _separate_async(sizes: Sizes) -> Iterator[Check]:
    if sizes.separate_async and sizes[TRAIN] != sizes[SYNC_STEP] * sizes[MINI]:
        yield failed(
            NAME,
            f"trainer_mode=separate_async needs {TRAIN} = {SYNC_STEP} x ppo_mini_batch_size = "
            f"{sizes[SYNC_STEP]} x {sizes[MINI]}, got {sizes[TRAIN]}.",
            f"{TRAIN}={sizes[SYNC_STEP] * sizes[MINI]}",
        )


def _train_batch_holds_a_mini_batch(sizes: Sizes) -> Iterator[Check]:
    if sizes[TRAIN] < sizes[MINI]:
        yield failed(
            NAME,
            f"{TRAIN}={sizes[TRAIN]} prompts are less than one mini-batch of {MINI}={sizes[MINI]} prompts.",
            f"{MINI}={sizes[TRAIN]}",
        )


def _rows_reach_all_gpus(sizes: Sizes) -> Iterator[Check]:
    for key, what in ((TRAIN, "batch"), (MINI, "mini-batch")):
        rows, share = sizes[key] * sizes[N], sizes.gpus if key == TRAIN else sizes.data_parallel
        if key == TRAIN and sizes.dynamic:
            continue
        if rows % share:
            step = share // math.gcd(share, sizes[N])
            value = math.ceil(sizes[key] / step) * step
            fix = [f"{key}={value}"] + ([f"{TRAIN}={value}"] if key == MINI and value > sizes[TRAIN] else [])
            yield failed(
                NAME,
                f"A {what} of {sizes[key]} prompts x {sizes[N]} responses = {rows} rows does not divide among {share} "
                f"GPUs ({key}, {N}, {GPUS}).",
                *fix,
            )


def _train_batch_is_whole_mini_batches(sizes: Sizes) -> Iterator[Check]:
    rest = sizes.batch % sizes[MINI]
    if not rest:
        return
    step = sizes.data_parallel // math.gcd(sizes.data_parallel, sizes[N])
    fits = [m for m in _divisors(sizes.batch, at_most=sizes[MINI]) if m % step == 0]
    fix = (f"{MINI}={fits[-1]}",) if fits else ()
    text = f"{sizes.batch} prompts are not a whole number of mini-batches of {MINI}={sizes[MINI]} prompts"
    if sizes.v1:
        yield warning(NAME, f"{text}: verl adds {(sizes[MINI] - rest) * sizes[N]} empty rows to each batch.", *fix)
    else:
        yield failed(NAME, f"{text}.", *fix)


def _micro_batches_divide(sizes: Sizes) -> Iterator[Check]:
    if sizes.dynamic:
        return
    mini = sizes[MINI] * sizes[N] // sizes.data_parallel
    passes = [(MICRO, mini, "mini-batch"), (OLD_MICRO, sizes.rows_per_gpu, "batch")]
    if _reference_in_use(sizes.config) and not ref_in_actor(sizes.config):
        passes.append((REF_MICRO, sizes.rows_per_gpu, "batch"))
    for key, rows, what in passes:
        micro = sizes[key]
        if micro is not None and rows % micro:
            # The same number for the reference is this one, taken over by the plugin, or has the same fault.
            keys = [key, REF_MICRO] if key == OLD_MICRO and sizes[REF_MICRO] == micro else [key]
            yield failed(
                NAME,
                f"Each GPU gets {rows} rows of a {what}, which is no multiple of {key}={micro}.",
                *(f"{name}={_divisors(rows, at_most=micro)[-1]}" for name in keys),
            )


def _passes_split_alike(sizes: Sizes) -> Iterator[Check]:
    if bool(sizes[OLD_DYNAMIC]) != sizes.dynamic:
        yield failed(
            NAME,
            f"{OLD_DYNAMIC}={sizes[OLD_DYNAMIC]}, but {DYNAMIC}={sizes.dynamic}: verl stops when they differ.",
            f"{OLD_DYNAMIC}={sizes.dynamic}",
        )


def _budgets_hold_a_response(sizes: Sizes) -> Iterator[Check]:
    if not sizes.dynamic:
        return
    longest = sizes["data.max_prompt_length"] + sizes["data.max_response_length"]
    need = math.ceil(longest / sizes.sequence_parallel)
    for key in BUDGETS:
        if sizes[key] is not None and sizes[key] < need:
            yield failed(
                NAME,
                f"{key}={sizes[key]} tokens cannot hold one prompt with its response, {longest} tokens.",
                f"{key}={need}",
            )


def _divisors(number: int, at_most: int) -> list[int]:
    return [d for d in range(1, min(number, at_most) + 1) if number % d == 0]


_RULES: tuple[Callable[[Sizes], Iterator[Check]], ...] = (
    _positive,
    _passes_split_alike,
    _micro_batches_are_set,
    _gpus_hold_whole_models,
    _separate_async,
    _train_batch_holds_a_mini_batch,
    _rows_reach_all_gpus,
    _train_batch_is_whole_mini_batches,
    _micro_batches_divide,
    _budgets_hold_a_response,
)
