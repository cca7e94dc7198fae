# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Sampling for the transformers rollout: reproducible, with the log-probs of the distribution sampled from."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import (
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)


@dataclass(frozen=True)
class SamplingParams:
    """What verl's agent loops may ask of a rollout server.

    Attributes:
        temperature: Divides the logits; 0 means greedy.
        top_k: Keep the k most probable tokens; -1 or 0 keeps all.
        top_p: Keep the smallest set of most probable tokens whose probability reaches p, in (0, 1].
        logprobs: Return the log-prob of each generated token.
        ignore_eos: Go on after an end token.
    """

    temperature: float = 1.0
    top_k: int = -1
    top_p: float = 1.0
    logprobs: bool = False
    ignore_eos: bool = False

    @classmethod
    def from_verl(cls, params: dict[str, Any]) -> "SamplingParams":
        """Read verl's sampling parameters (without the token limits).

        Raises:
            ValueError: A value is out of range, or a parameter is not supported by this rollout.
        """
        params = dict(params)
        if float(params.pop("repetition_penalty", 1.0)) != 1.0:
            raise ValueError(
                "rollout.name=hf needs actor_rollout_ref.rollout.repetition_penalty=1.0: with another value the "
                "rollout would sample from a distribution that the actor does not compute"
            )
        result = cls(
            temperature=float(params.pop("temperature", cls.temperature)),
            top_k=int(params.pop("top_k", cls.top_k)),
            top_p=float(params.pop("top_p", cls.top_p)),
            logprobs=params.pop("logprobs", False) not in (False, None),
            ignore_eos=bool(params.pop("ignore_eos", False)),
        )
        if params:
            raise ValueError(f"rollout.name=hf does not support the sampling parameters {sorted(params)}: use vllm")
        if result.temperature < 0:
            raise ValueError(f"rollout.temperature={result.temperature} must be >= 0")
        if result.top_k < -1:
            raise ValueError(f"rollout.top_k={result.top_k} must be >= 1, or -1 for all")
        if not 0 < result.top_p <= 1:
            raise ValueError(f"rollout.top_p={result.top_p} must be in (0, 1]")
        return result

    def warpers(self) -> LogitsProcessorList:
        """Give the logits processors, in the order that vLLM applies them: temperature, top-k, top-p."""
        warpers = LogitsProcessorList()
        if self.temperature not in (0.0, 1.0):
            warpers.append(TemperatureLogitsWarper(self.temperature))
        if self.temperature > 0 and self.top_k > 0:
            warpers.append(TopKLogitsWarper(self.top_k))
        if self.temperature > 0 and self.top_p < 1:
            warpers.append(TopPLogitsWarper(self.top_p))
        return warpers


def row_seed(*parts: Any) -> int:
    """Hash the parts into a 64-bit seed, the same in every process and on every machine."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def inverse_cdf_sample(log_probs: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """Draw one token per row by inverting the cumulative distribution.

    Args:
        log_probs: Shape (rows, vocabulary), normalised or not; -inf excludes a token.
        uniforms: Shape (rows,), float64 in [0, 1).

    Returns:
        Tokens of shape (rows,), int64. A token of probability zero is never drawn.
    """
    cdf = log_probs.double().softmax(-1).cumsum(-1)
    total = cdf[:, -1:].contiguous()
    drawn = torch.searchsorted(cdf, uniforms.unsqueeze(-1) * total, right=True)
    last_possible = torch.searchsorted(cdf, total, right=False)
    return torch.minimum(drawn, last_possible).squeeze(-1)


class Sampler(LogitsProcessor):
    """Chooses the next tokens inside ``generate()`` and records their log-probs.

    It runs as the last logits processor of a greedy ``generate()`` and leaves only the token it chose, so the choice
    depends on the row's own random numbers and not on which other rows happen to be in the batch.

    Args:
        params: Sampling parameters, the same for all rows.
        seeds: One seed per row.
        max_tokens: Limit of new tokens per row.
        raw_logprobs: Record log-probs of the raw logits (``rollout.logprobs_mode=raw_logprobs``) instead of those of
            the distribution after temperature, top-k and top-p.
    """

    def __init__(self, params: SamplingParams, seeds: list[int], max_tokens: list[int], raw_logprobs: bool = False):
        self.greedy = params.temperature == 0
        self.warpers = params.warpers()
        self.raw_logprobs = raw_logprobs
        self.log_probs: list[torch.Tensor] = []
        steps = max(max_tokens)
        self._uniforms = torch.from_numpy(np.stack([np.random.default_rng(s).random(steps) for s in seeds], axis=1))

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        logits = scores.float()
        warped = torch.log_softmax(self.warpers(input_ids, logits), -1)
        if not torch.isfinite(warped.amax(-1)).all():
            raise FloatingPointError("the rollout model's logits are not finite: the weights contain NaN or inf")
        if self.greedy:
            tokens = warped.argmax(-1)
        else:
            tokens = inverse_cdf_sample(warped, self._uniforms[len(self.log_probs)].to(warped.device))
        tokens = tokens.unsqueeze(-1)
        recorded = torch.log_softmax(logits, -1) if self.raw_logprobs else warped
        self.log_probs.append(recorded.gather(-1, tokens).squeeze(-1))
        return torch.full_like(logits, -torch.inf).scatter_(-1, tokens, 0.0)


class RowLimits(StoppingCriteria):
    """Stops each row at its own token limit, and all rows when ``abort`` is set from another thread."""

    def __init__(self, prompt_width: int, max_tokens: list[int]):
        self.abort = False
        self._last = torch.tensor(max_tokens) + prompt_width

    def __call__(self, input_ids: torch.LongTensor, scores: Any, **kwargs: Any) -> torch.BoolTensor:
        return ((input_ids.shape[1] >= self._last) | self.abort).to(input_ids.device)
