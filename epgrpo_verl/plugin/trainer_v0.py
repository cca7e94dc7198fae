# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The trainers whose data is in a DataProto: V0 (``trainer.use_v1=False``), separation, one_step_off and fully_async.

They share three functions: ``RayPPOTrainer._compute_old_log_prob``, from whose result they drop the entropy,
``compute_advantage``, which the V1 trainers call too, and ``compute_data_metrics``, whose result goes to the logger.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from . import ESTIMATOR
from .feed import Feed, current, fed_from, feeding
from .guards import log_vocabulary_size
from .policy_loss import SLOPE, wants_slope
from .preflight import tokenizer_source, uses_ep_grpo

FEED_INFO = "ep_grpo_feed"
"""Key of ``DataProto.meta_info`` for what the estimator needs to know about the trainer."""
METRICS_INFO = "ep_grpo_metrics"
"""Key of ``DataProto.meta_info`` for the estimator's metrics."""


def wrap_compute_old_log_prob(wrapped: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``RayPPOTrainer._compute_old_log_prob``: a second name for the entropy survives the trainer's ``pop``."""

    @functools.wraps(wrapped)
    def _compute_old_log_prob(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = wrapped(self, *args, **kwargs)
        if uses_ep_grpo(self.config):
            old_log_prob, _ = result
            old_log_prob.batch["entropy"] = old_log_prob.batch["entropys"]
            old_log_prob.meta_info[FEED_INFO] = {
                "step": self.global_steps,
                "max_entropy": log_vocabulary_size(self.config),
                "tokenizer": tokenizer_source(self.config),
                "wants_slope": wants_slope(self.config),
            }
        return result

    return _compute_old_log_prob


def wrap_compute_advantage(wrapped: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap verl's ``compute_advantage``: feed the estimator from the batch.

    Within the V1 trainers' own hook, that hook's feed is used and takes the results.
    """

    @functools.wraps(wrapped)
    def compute_advantage(data: Any, adv_estimator: Any, *args: Any, **kwargs: Any) -> Any:
        if adv_estimator != ESTIMATOR:
            return wrapped(data, adv_estimator, *args, **kwargs)
        if current() is not None:
            fed_from(data.batch)
            return wrapped(data, adv_estimator, *args, **kwargs)
        with feeding(fed_from(data.batch, Feed(**data.meta_info.get(FEED_INFO, {})))) as feed:
            data = wrapped(data, adv_estimator, *args, **kwargs)
        data.meta_info[METRICS_INFO] = feed.metrics
        if feed.wants_slope:
            data.batch[SLOPE] = feed.result.progress_slope
        return data

    return compute_advantage


def wrap_compute_data_metrics(wrapped: Callable[..., dict]) -> Callable[..., dict]:
    """Wrap verl's ``compute_data_metrics``: the batch's EP-GRPO metrics go the same way as its own."""

    @functools.wraps(wrapped)
    def compute_data_metrics(batch: Any, *args: Any, **kwargs: Any) -> dict:
        metrics = wrapped(batch, *args, **kwargs)
        metrics.update(getattr(batch, "meta_info", {}).get(METRICS_INFO, {}))
        return metrics

    return compute_data_metrics
