# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Model and batches: a 0.5B-like model for a GPU, a tiny one for a CPU."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM


@dataclass(frozen=True)
class Sizes:
    """What is measured.

    Attributes:
        hidden, layers, heads, kv_heads, intermediate, vocabulary: Shape of the Qwen2 model.
        rows: Sequences of a batch.
        micro_rows: Sequences of a micro-batch.
        prompt: Tokens of a prompt.
        response: Tokens of a response.
        group: Responses to a prompt.
        entropy_tokens: Tokens whose entropy is measured at once.
        advantage: Rows and columns of the batches whose advantage is measured.
    """

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    intermediate: int
    vocabulary: int
    rows: int
    micro_rows: int
    prompt: int
    response: int
    group: int
    entropy_tokens: int
    advantage: tuple[tuple[int, int], ...]


FULL = Sizes(
    # Qwen2.5-0.5B
    hidden=896,
    layers=24,
    heads=14,
    kv_heads=2,
    intermediate=4864,
    vocabulary=151936,
    rows=64,
    micro_rows=4,
    prompt=256,
    response=768,
    group=8,
    entropy_tokens=4096,
    advantage=((64, 512), (256, 2048), (1024, 4096), (1024, 8192)),
)
SMALL = Sizes(
    hidden=64,
    layers=2,
    heads=2,
    kv_heads=1,
    intermediate=128,
    vocabulary=512,
    rows=8,
    micro_rows=4,
    prompt=8,
    response=32,
    group=4,
    entropy_tokens=256,
    advantage=((16, 64), (64, 512)),
)


def build_model(sizes: Sizes, device: torch.device, dtype: torch.dtype) -> PreTrainedModel:
    """Builds a Qwen2 model with random weights."""
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=sizes.vocabulary,
        hidden_size=sizes.hidden,
        intermediate_size=sizes.intermediate,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.kv_heads,
        max_position_embeddings=sizes.prompt + sizes.response,
        tie_word_embeddings=True,
        attn_implementation="sdpa",
        dtype=dtype,
    )
    with device:
        model = Qwen2ForCausalLM(config)
    return model.to(dtype)
