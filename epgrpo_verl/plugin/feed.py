# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Carries what verl does not pass to an estimator from the trainer's hooks to it.

verl calls an estimator with rewards, mask, uid and config only. The hooks around the trainer put the rest into a
`Feed`, which the estimator finds through a context variable: nothing of verl's own code is repeated, and two
estimators in one process (two threads, say) cannot see each other's data.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from ..algorithm import EPGRPOResult


@dataclass
class Feed:
    """Inputs of one advantage computation beyond what verl passes, and what comes back from it.

    Attributes:
        fields: Padded tensors by verl's names: ``entropy``, ``old_log_probs``, ``ref_log_prob``, each (bs, T).
        keys: Row keys ``{uid}_{session}_{index}`` of the V1 trainer in row order, None for other trainers.
        step: The trainer's global step, where known.
        max_entropy: log(vocabulary size) of the model in nats, where known.
        read_tokens: Gives token ids of prompt and response of some rows, without padding, for a trace; None where the
            batch has none.
        tokenizer: Path of the model's tokenizer, and whether code that comes with it may run; None where unknown.
        wants_slope: Whether the policy loss needs `EPGRPOResult.progress_slope`.
        result: Set by the estimator.
        metrics: Set by the estimator; the hook puts them into the trainer's metrics.
    """

    fields: dict[str, torch.Tensor] = field(default_factory=dict)
    keys: Sequence[str] | None = None
    step: int | None = None
    max_entropy: float | None = None
    read_tokens: Callable[[Sequence[int]], list[tuple[list[int], list[int]]]] | None = None
    tokenizer: tuple[str, bool] | None = None
    wants_slope: bool = False
    result: EPGRPOResult | None = None
    metrics: dict[str, float] = field(default_factory=dict)


_CURRENT: ContextVar[Feed | None] = ContextVar("epgrpo_verl_feed", default=None)


def current() -> Feed | None:
    """The feed of the advantage computation that is under way, or None outside of one."""
    return _CURRENT.get()


@contextmanager
def feeding(feed: Feed) -> Iterator[Feed]:
    """Make ``feed`` the current one within the ``with`` block."""
    token = _CURRENT.set(feed)
    try:
        yield feed
    finally:
        _CURRENT.reset(token)


def fed_from(batch: Mapping[str, Any], feed: Feed | None = None) -> Feed:
    """Complete a feed from verl's batch, without copying a tensor.

    Args:
        batch: Tensors by verl's names. Fields that a hook fetched win over those of the batch.
        feed: The feed to complete; None takes the current one, or a new one outside of any hook.
    """
    feed = feed or current() or Feed()
    for name in ("entropy", "old_log_probs", "ref_log_prob"):
        if name in batch.keys():
            feed.fields.setdefault(name, batch[name])
    if feed.read_tokens is None and {"prompts", "responses", "attention_mask"} <= set(batch.keys()):
        feed.read_tokens = functools.partial(padded_tokens, batch)
    return feed


def padded_tokens(batch: Mapping[str, torch.Tensor], rows: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Token ids of prompt and response of some rows of a batch in verl's padded layout.

    Args:
        batch: ``prompts`` (bs, P), padded on the left, ``responses`` (bs, T), padded on the right, and
            ``attention_mask`` (bs, P + T), which is 0 on padding.
        rows: Row numbers.
    """
    mask = batch["attention_mask"] != 0
    start = batch["prompts"].shape[1]
    return [
        (batch["prompts"][row][mask[row, :start]].tolist(), batch["responses"][row][mask[row, start:]].tolist())
        for row in rows
    ]
