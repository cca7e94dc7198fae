# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The V1 trainers, whose data is in TransferQueue: ``trainer.v1.trainer_mode`` sync, colocate_async, separate_async."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from . import transfer_queue
from .feed import Feed, feeding
from .guards import log_vocabulary_size
from .policy_loss import SLOPE, wants_slope
from .preflight import tokenizer_source, uses_ep_grpo


def wrap_compute_advantage(wrapped: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``PPOTrainer._compute_advantage``: fetch entropy, hand metrics to the logger, send the slope to the loss."""

    @functools.wraps(wrapped)
    def _compute_advantage(self: Any, batch: Any, metrics: dict, *args: Any, **kwargs: Any) -> Any:
        if not uses_ep_grpo(self.config):
            return wrapped(self, batch, metrics, *args, **kwargs)
        feed = Feed(
            {"entropy": transfer_queue.get_padded(batch, "entropy")},
            keys=list(batch.keys),
            step=self.global_steps,
            max_entropy=log_vocabulary_size(self.config),
            read_tokens=functools.partial(transfer_queue.get_tokens, batch),
            tokenizer=tokenizer_source(self.config),
            wants_slope=wants_slope(self.config),
        )
        with feeding(feed):
            batch = wrapped(self, batch, metrics, *args, **kwargs)
        metrics.update(feed.metrics)
        if feed.wants_slope:
            batch = transfer_queue.put_padded(batch, SLOPE, feed.result.progress_slope)
        return batch

    return _compute_advantage
