# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What generates the samples: transformers or vLLM, behind one interface."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Protocol

from .errors import EvaluationError
from .model import Model

BACKENDS = ("hf", "vllm")


@dataclass(frozen=True)
class Sampling:
    """How responses are drawn.

    Attributes:
        temperature: Divides the logits; 0 is greedy.
        top_p: Keep the most probable tokens up to this probability.
        top_k: Keep so many of the most probable tokens; -1 keeps all.
        max_tokens: Longest response, in tokens.
        seed: Each sample's own seed is drawn from this one.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    max_tokens: int = 3072
    seed: int = 42

    def __post_init__(self) -> None:
        if self.temperature < 0:
            raise EvaluationError(f"--temperature {self.temperature} must be 0 or more")
        if not 0 < self.top_p <= 1:
            raise EvaluationError(f"--top-p {self.top_p} must be above 0 and at most 1")
        if self.top_k < 1 and self.top_k != -1:
            raise EvaluationError(f"--top-k {self.top_k} must be 1 or more, or -1 for all tokens")
        if self.max_tokens < 1:
            raise EvaluationError(f"--max-tokens {self.max_tokens} must be 1 or more")


@dataclass(frozen=True)
class Engine:
    """What the samples do not depend on, apart from rounding.

    Attributes:
        dtype: ``auto``, ``bfloat16``, ``float16`` or ``float32``. This one the samples do depend on.
        device: For transformers: ``auto``, ``cpu``, ``cuda``, ...
        batch_size: For transformers: samples generated together.
        tensor_parallel: For vLLM: GPUs that share the model.
        memory_share: For vLLM: share of each GPU's memory.
        max_num_seqs: For vLLM: samples generated together; None leaves it to vLLM.
    """

    dtype: str = "auto"
    device: str = "auto"
    batch_size: int = 32
    tensor_parallel: int = 1
    memory_share: float = 0.9
    max_num_seqs: int | None = None


@dataclass(frozen=True)
class Request:
    """One sample to draw.

    Attributes:
        key: Handed back with the response.
        prompt: Token ids.
        seed: Of its random numbers.
    """

    key: tuple[str, str, int]
    prompt: list[int]
    seed: int


@dataclass(frozen=True)
class Response:
    """One sample.

    Attributes:
        key: Of its request.
        tokens: New token ids, with the end token if there was one.
        finish_reason: ``stop`` at an end token, ``length`` at the limit.
    """

    key: tuple[str, str, int]
    tokens: list[int]
    finish_reason: str


class Backend(Protocol):
    """Generates."""

    def generate(self, requests: Sequence[Request]) -> Iterator[Response]:
        """Yield a response to each request, in the order in which they get ready."""


def choose_backend(name: str) -> str:
    """Turn ``auto`` into vLLM where it is installed and into transformers elsewhere.

    Raises:
        EvaluationError: There is no such backend, or it is not installed.
    """
    if name == "auto":
        name = "vllm" if find_spec("vllm") else "hf"
    if name not in BACKENDS:
        raise EvaluationError(f"--backend {name} is none of auto, {', '.join(BACKENDS)}")
    if name == "vllm" and find_spec("vllm") is None:
        raise EvaluationError("--backend vllm: vLLM is not installed; use --backend hf")
    return name


def start_backend(name: str, model: Model, sampling: Sampling, engine: Engine, context: int) -> Backend:
    """Load the model into a backend of `BACKENDS`.

    Args:
        name: Which one.
        model: The model.
        sampling: How responses are drawn.
        engine: How they are computed.
        context: Tokens that the longest prompt and its response need.

    Raises:
        EvaluationError: It cannot be loaded.
    """
    if name == "vllm":
        from .backend_vllm import VLLMBackend as backend
    else:
        from .backend_hf import HFBackend as backend
    try:
        return backend(model, sampling, engine, context)
    except EvaluationError:
        raise
    except Exception as error:
        raise EvaluationError(
            f"--backend {name} could not load {model.name}: {type(error).__name__}: {error}"
        ) from error
