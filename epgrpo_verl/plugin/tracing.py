# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""``+algorithm.ep_grpo.trace_dir=...``: token traces of what the estimator computed.

A trace is there to be looked at. Nothing that goes wrong with it may stop a training: it is said once, and tracing
ends or goes on without what is missing.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..trace.record import group_records, header_record, sample_groups
from ..trace.text import load_tokenizer, token_texts
from ..trace.writer import TraceFull, TraceWriter
from .feed import Feed
from .preflight import warn_once
from .settings import PluginSettings

logger = logging.getLogger("epgrpo_verl")


@dataclass
class _Tracer:
    """The writer of one folder; None once tracing has ended."""

    writer: TraceWriter | None


@functools.cache
def _tracer(plugin: PluginSettings) -> _Tracer:
    logger.info("ep_grpo: token traces go to %s", plugin.trace_dir)
    return _Tracer(TraceWriter(plugin.trace_dir, plugin.trace_every, plugin.trace_max_mb))


@functools.cache
def _texts(source: tuple[str, bool] | None) -> Callable[[Sequence[int]], list[str]] | None:
    """What gives the text of each token, loaded once; None if there is no tokenizer."""
    if source is None:
        warn_once("ep_grpo: the trace has token ids without text, because this trainer did not say which model it is.")
        return None
    try:
        return functools.partial(token_texts, load_tokenizer(*source))
    except Exception as error:
        warn_once(f"ep_grpo: the trace has token ids without text, because no tokenizer came from {source[0]}: {error}")
        return None


def trace(feed: Feed, uid: Sequence[Any], plugin: PluginSettings, norm_adv_by_std: bool) -> None:
    """Write the trace of one advantage computation, if its step is one to be traced. Never raises.

    Args:
        feed: Inputs and result of the computation.
        uid: (bs,) what names the group of each row.
        plugin: Settings, with ``trace_dir`` set.
        norm_adv_by_std: verl's ``norm_adv_by_std_in_grpo``.
    """
    tracer = _tracer(plugin)
    if tracer.writer is None:
        return
    try:
        _write(tracer.writer, feed, uid, plugin, norm_adv_by_std)
    except TraceFull as full:
        tracer.writer = None
        warn_once(
            f"ep_grpo: no more token traces: {full}, and algorithm.ep_grpo.trace_max_mb={plugin.trace_max_mb:g}. "
            "What is there stays, and training goes on. To see more of a run raise it, raise trace_every, or lower "
            "trace_groups."
        )
    except Exception as error:
        tracer.writer = None
        warn_once(
            f"ep_grpo: no more token traces, because one could not be written to algorithm.ep_grpo.trace_dir="
            f"{plugin.trace_dir}: {error!r}. Training goes on."
        )


def _write(writer: TraceWriter, feed: Feed, uid: Sequence[Any], plugin: PluginSettings, norm_adv_by_std: bool) -> None:
    step = writer.due(feed.step)
    if step is None:
        return
    if feed.read_tokens is None:
        raise LookupError("this trainer's batch has no prompts, responses and attention_mask")
    part = writer.next_part(step)
    groups = sample_groups(feed.result, plugin.trace_groups, seed=f"{step}/{part}")
    texts = _texts(feed.tokenizer)
    entropy = feed.fields.get("entropy")
    records = group_records(feed.result, entropy, uid, groups, feed.read_tokens, texts)
    path = writer.write(step, [header_record(feed.result, step, part, norm_adv_by_std), *records])
    logger.info("ep_grpo: %s groups of step %s are in %s", len(groups), step, path)
