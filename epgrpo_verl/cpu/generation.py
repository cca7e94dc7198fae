# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""One batch through transformers' ``generate()``, each row with its own seed and its own limit of tokens."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

import torch
from transformers import GenerationConfig, PreTrainedModel

from .sampling import RowLimits, Sampler, SamplingParams


@dataclass(frozen=True)
class Row:
    """One prompt to continue.

    Attributes:
        prompt: Its token ids.
        seed: Of its random numbers, so that the result does not depend on the rest of the batch.
        max_tokens: Limit of new tokens.
    """

    prompt: list[int]
    seed: int
    max_tokens: int


@dataclass(frozen=True)
class Continuation:
    """What was generated for a row.

    Attributes:
        tokens: The new tokens, with the end token if there was one.
        log_probs: The log-prob of each, see :class:`Sampler`.
        ended: Whether an end token came.
        complete: Whether the row came to its end token or its limit; not so where generation was aborted.
    """

    tokens: list[int]
    log_probs: list[float]
    ended: bool
    complete: bool


def use_plain_generation(model: PreTrainedModel, pad: int) -> None:
    """Drop the model's own defaults (top_p, repetition_penalty, end token, ...), which must not leak into sampling.

    transformers takes the end token from there if a call says ``eos_token_id=None``.
    """
    model.generation_config = GenerationConfig(do_sample=False, pad_token_id=pad)


@torch.inference_mode()
def generate_rows(
    model: PreTrainedModel,
    rows: list[Row],
    params: SamplingParams,
    end_tokens: Collection[int],
    pad: int,
    raw_logprobs: bool = False,
    on_start: Callable[[RowLimits], None] = lambda limits: None,
) -> list[Continuation]:
    """Continue a batch of prompts.

    Args:
        model: The model, after `use_plain_generation`.
        rows: Prompts with seeds and limits.
        params: Sampling parameters, the same for all rows.
        end_tokens: Tokens that end a response, unless ``params.ignore_eos``.
        pad: Token to fill up with.
        raw_logprobs: See :class:`Sampler`.
        on_start: Is given the stopping criterion, through which another thread can abort the batch.

    Returns:
        One continuation per row, in their order.
    """
    width = max(len(row.prompt) for row in rows)
    ids = torch.full((len(rows), width), pad)
    mask = torch.zeros_like(ids)
    for index, row in enumerate(rows):
        ids[index, width - len(row.prompt) :] = torch.tensor(row.prompt)
        mask[index, width - len(row.prompt) :] = 1
    limits = [row.max_tokens for row in rows]
    sampler = Sampler(params, [row.seed for row in rows], limits, raw_logprobs=raw_logprobs)
    stopper = RowLimits(width, limits)
    on_start(stopper)
    stop_at = [] if params.ignore_eos else sorted(end_tokens)
    sequences = model.generate(
        input_ids=ids.to(model.device),
        attention_mask=mask.to(model.device),
        max_new_tokens=max(limits),
        eos_token_id=stop_at or None,
        logits_processor=[sampler],
        stopping_criteria=[stopper],
    )
    log_probs = torch.stack(sampler.log_probs, dim=1).tolist()
    result = []
    for index, (tokens, limit) in enumerate(zip(sequences[:, width:].tolist(), limits, strict=True)):
        end = next((position for position, token in enumerate(tokens[:limit]) if token in stop_at), None)
        length = min(len(tokens), limit) if end is None else end + 1
        complete = end is not None or length == limit or not stopper.abort
        result.append(Continuation(tokens[:length], log_probs[index][:length], end is not None, complete))
    return result
