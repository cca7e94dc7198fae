# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Sampling with transformers' ``generate()``, batch by batch; runs on the CPU too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from transformers import AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar

from epgrpo_verl.cpu.generation import Row, generate_rows, use_plain_generation
from epgrpo_verl.cpu.sampling import SamplingParams

from .backend import Engine, Request, Response, Sampling
from .errors import EvaluationError
from .model import Model


class HFBackend:
    """A model in this process. An adapter is merged into the weights. ``context`` is not needed."""

    def __init__(self, model: Model, sampling: Sampling, engine: Engine, context: int) -> None:
        device = engine.device
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        dtype = engine.dtype if engine.dtype == "auto" else getattr(torch, engine.dtype)
        disable_progress_bar()  # of loading: it would draw over the run's own
        network = AutoModelForCausalLM.from_pretrained(model.folder, dtype=dtype)
        if model.adapter is not None:
            try:
                from peft import PeftModel
            except ImportError as error:
                raise EvaluationError("--lora with --backend hf needs peft: pip install peft") from error
            network = PeftModel.from_pretrained(network, model.adapter).merge_and_unload()
        self._network = network.to(device).eval()
        self._end_tokens = model.end_tokens
        pad = model.tokenizer.pad_token_id
        self._pad = pad if pad is not None else min(model.end_tokens)
        use_plain_generation(self._network, self._pad)
        self._params = SamplingParams(sampling.temperature, sampling.top_k, sampling.top_p)
        self._max_tokens = sampling.max_tokens
        self._batch_size = engine.batch_size

    def generate(self, requests: Sequence[Request]) -> Iterator[Response]:
        """Yield the responses of one batch after the other, in the order of the requests."""
        for start in range(0, len(requests), self._batch_size):
            batch = requests[start : start + self._batch_size]
            rows = [Row(request.prompt, request.seed, self._max_tokens) for request in batch]
            continuations = generate_rows(self._network, rows, self._params, self._end_tokens, self._pad)
            for request, continuation in zip(batch, continuations, strict=True):
                yield Response(request.key, continuation.tokens, "stop" if continuation.ended else "length")
