# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The rollout server on transformers' ``generate()``: a plain class, made a Ray actor by ``hf_rollout``."""

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.torch_dtypes import PrecisionType
from verl.workers.config import HFModelConfig, RolloutConfig
from verl.workers.rollout.replica import TokenOutput

from .generation import Row, generate_rows, use_plain_generation
from .sampling import RowLimits, SamplingParams, row_seed

logger = logging.getLogger(__name__)

GATHER_S = 0.1
"""Seconds without a new request after which a batch is closed."""


@dataclass
class _Request:
    prompt: list[int]
    params: SamplingParams
    max_tokens: int
    seed: int
    aborts: int
    result: asyncio.Future = field(repr=False)


class HFServer:
    """Generates token by token for all requests that wait, one batch at a time.

    Args:
        config: verl's rollout config. Used: prompt_length, response_length, max_model_len, max_num_seqs, dtype, seed,
            ignore_eos, logprobs_mode.
        model_config: verl's model config; the model is loaded from its local path.
        replica_rank: Index of this server among the replicas; part of the random seed.
    """

    def __init__(self, config: RolloutConfig, model_config: Any, replica_rank: int = 0):
        self.config: RolloutConfig = omega_conf_to_dataclass(config, dataclass_type=RolloutConfig)
        self.model_config = omega_conf_to_dataclass(model_config, dataclass_type=HFModelConfig)
        self.replica_rank = replica_rank
        self.model = AutoModelForCausalLM.from_pretrained(
            self.model_config.local_path,
            dtype=PrecisionType.to_dtype(self.config.dtype),
            trust_remote_code=self.model_config.trust_remote_code,
        ).eval()
        self.eos, self.pad = self._special_tokens()
        use_plain_generation(self.model, self.pad)
        self.global_steps: int | None = None
        self._repeats: Counter = Counter()
        self._queue: asyncio.Queue[_Request] = asyncio.Queue()
        self._weights_lock = asyncio.Lock()
        self._gate = asyncio.Event()
        self._gate.set()
        self._rejecting = False
        self._aborts = 0
        self._running: RowLimits | None = None
        self._worker: asyncio.Task | None = None

    def _special_tokens(self) -> tuple[set[int], int]:
        tokenizer, declared = self.model_config.tokenizer, self.model.generation_config.eos_token_id
        eos = set(declared) if isinstance(declared, list) else {declared}
        eos = {token for token in (*eos, tokenizer.eos_token_id) if token is not None}
        if not eos:
            raise ValueError(
                f"neither the generation config nor the tokenizer of {self.model_config.local_path} has an end token"
            )
        pad = tokenizer.pad_token_id
        return eos, pad if pad is not None else min(eos)

    async def generate(
        self, prompt_ids: list[int], sampling_params: dict[str, Any], request_id: str, **kwargs: Any
    ) -> TokenOutput:
        """Continue one prompt.

        Args:
            prompt_ids: Token ids of the prompt.
            sampling_params: See :class:`SamplingParams`; ``max_tokens`` or ``max_new_tokens`` limits the response.
            request_id: Only for log messages.
            kwargs: Images, video and audio, which must be empty.

        Returns:
            The new tokens, with the end token if there was one, and their log-probs if asked for.

        Raises:
            ValueError: The prompt leaves no room, or a parameter is not supported.
            RuntimeError: Generation failed; every request of the batch gets the error.
        """
        if given := sorted(name for name, value in kwargs.items() if name.endswith("_data") and value):
            raise ValueError(f"rollout.name=hf is text only, but request {request_id} has {given}")
        prompt = [int(token) for token in prompt_ids]
        params = dict(sampling_params)
        max_tokens = self._max_tokens(len(prompt), params)
        params.setdefault("ignore_eos", self.config.ignore_eos)
        params = SamplingParams.from_verl(params)
        while not self._gate.is_set():
            if self._rejecting:
                return self._output([], None, "aborted")
            await self._gate.wait()
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._serve())
            self._worker.add_done_callback(self._fail_waiting)
        # The n samples of one prompt differ by how often the prompt was seen since the last weight update.
        key = (self.config.seed, self.global_steps, params.temperature, tuple(prompt))
        self._repeats[key] += 1
        seed = row_seed(self.replica_rank, self._repeats[key], *key)
        request = _Request(prompt, params, max_tokens, seed, self._aborts, asyncio.get_running_loop().create_future())
        self._queue.put_nowait(request)
        return await request.result

    def _max_tokens(self, prompt_length: int, params: dict[str, Any]) -> int:
        config = self.config
        room = (config.max_model_len or config.prompt_length + config.response_length) - prompt_length
        if room < 1:
            raise ValueError(
                f"a prompt of {prompt_length} tokens leaves no room: raise actor_rollout_ref.rollout.max_model_len "
                "or lower data.max_prompt_length"
            )
        default = min(config.response_length, config.prompt_length + config.response_length - prompt_length)
        limits = [params.pop(name) for name in ("max_tokens", "max_new_tokens") if name in params]
        return max(1, min(limits[0] if limits else default, room))

    async def _serve(self) -> None:
        while True:
            batch = await self._collect()
            groups: dict[SamplingParams, list[_Request]] = {}
            for request in batch:
                groups.setdefault(request.params, []).append(request)
            for params, requests in groups.items():
                try:
                    async with self._weights_lock:  # no weight update under a running batch
                        outputs = await self._run(params, requests)
                except Exception as error:
                    logger.exception("generation of %d requests failed", len(requests))
                    outputs = [RuntimeError(f"the HF rollout failed: {type(error).__name__}: {error}")] * len(requests)
                for request, output in zip(requests, outputs, strict=True):
                    if request.result.done():  # cancelled by the caller
                        continue
                    if isinstance(output, Exception):
                        request.result.set_exception(output)
                    else:
                        request.result.set_result(output)

    async def _run(self, params: SamplingParams, requests: list[_Request]) -> list[TokenOutput]:
        # An abort between the queue and here, while other requests or a weight update were awaited, counts too.
        outputs = [self._output([], [], "aborted") for _ in requests]
        rows = [row for row, request in enumerate(requests) if request.aborts == self._aborts]
        if rows:
            generated = await asyncio.to_thread(self._generate, params, [requests[row] for row in rows])
            for row, output in zip(rows, generated, strict=True):
                outputs[row] = output
        return outputs

    def _fail_waiting(self, worker: asyncio.Task) -> None:
        """Answer the requests in the queue if the worker ends, which it never should."""
        cause = "it was cancelled" if worker.cancelled() else repr(worker.exception())
        while not self._queue.empty():
            request = self._queue.get_nowait()
            if not request.result.done():
                request.result.set_exception(RuntimeError(f"the HF rollout's worker ended: {cause}"))

    async def _collect(self) -> list[_Request]:
        """Wait for a request, then take all that follow without a pause, up to max_num_seqs."""
        batch = [await self._queue.get()]
        waiting = -1
        while waiting < self._queue.qsize() < self.config.max_num_seqs - 1:
            waiting = self._queue.qsize()
            await asyncio.sleep(GATHER_S)
        while len(batch) < self.config.max_num_seqs and not self._queue.empty():
            batch.append(self._queue.get_nowait())
        return batch

    def _generate(self, params: SamplingParams, requests: list[_Request]) -> list[TokenOutput]:
        def running(limits: RowLimits) -> None:
            self._running = limits
            # After the line above, so that an abort is seen either here or by the limits.
            limits.abort |= any(request.aborts != self._aborts for request in requests)

        try:
            rows = generate_rows(
                self.model,
                [Row(request.prompt, request.seed, request.max_tokens) for request in requests],
                params,
                self.eos,
                self.pad,
                raw_logprobs=self.config.logprobs_mode == "raw_logprobs",
                on_start=running,
            )
        finally:
            self._running = None
        return [
            self._output(
                row.tokens, row.log_probs if params.logprobs else None, "completed" if row.complete else "aborted"
            )
            for row in rows
        ]

    def _output(self, tokens: list[int], log_probs: list[float] | None, reason: str) -> TokenOutput:
        return TokenOutput(
            token_ids=tokens,
            log_probs=log_probs,
            stop_reason=reason,
            num_preempted=0,
            extra_fields={"global_steps": self.global_steps},
        )

    async def load_weights(self, weights: dict[str, torch.Tensor], global_steps: int | None) -> None:
        """Replace the model's weights.

        Raises:
            ValueError: The names do not cover the model (tied weights aside), or do not belong to it.
        """
        async with self._weights_lock:
            tied = set(getattr(self.model, "all_tied_weights_keys", None) or {})
            missing, unexpected = self.model.load_state_dict(weights, strict=False)
            missing = [name for name in missing if name not in tied]
            if missing or unexpected:
                raise ValueError(
                    f"weight sync does not fit the rollout model: missing {missing[:5]}, unexpected {unexpected[:5]}"
                )
            self.global_steps = global_steps
            self._repeats.clear()

    async def abort_all_requests(self, reject_request: bool = False, **_: Any) -> None:
        """End the running batch early and hold new requests, or answer them as aborted, until generation resumes."""
        self._rejecting = reject_request
        self._gate.clear()
        self._aborts += 1
        while not self._queue.empty():
            request = self._queue.get_nowait()
            if not request.result.done():  # cancelled by the caller
                request.result.set_result(self._output([], [], "aborted"))
        if running := self._running:
            running.abort = True

    async def resume_generation(self) -> None:
        """Accept requests again."""
        self._rejecting = False
        self._gate.set()
