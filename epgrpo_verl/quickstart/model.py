# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""A tiny Qwen2 with a byte tokenizer, warmed up for a few seconds on sloppy demonstrations of the task."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from tokenizers.pre_tokenizers import ByteLevel
from transformers import PreTrainedModel, PreTrainedTokenizerBase, Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

from epgrpo_verl.quickstart.task import Difficulty, demonstrate, format_prompt, sample_terms

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"

# One letter per role keeps the prompts of a byte tokenizer short.
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'][0] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>a\n{% endif %}"
)


@dataclass(frozen=True)
class WarmUp:
    """Settings of the model and of its supervised warm-up.

    Attributes:
        steps: Optimizer steps on right derivations, which teach the task.
        sloppy_steps: Optimizer steps after those on derivations with mistakes, which make the model unsure.
        batch_size: Demonstrations per step.
        learning_rate: Peak learning rate of AdamW, reached after a tenth of the steps; it then falls linearly to 0.
        hidden_size: Width of the model.
        num_layers: Depth of the model.
        seed: Seed of the weights and of the demonstrations.
    """

    steps: int = 180
    sloppy_steps: int = 40
    batch_size: int = 32
    learning_rate: float = 5e-3
    hidden_size: int = 64
    num_layers: int = 2
    seed: int = 0

    @property
    def total_steps(self) -> int:
        """All optimizer steps."""
        return self.steps + self.sloppy_steps


def build_tokenizer() -> PreTrainedTokenizerBase:
    """Builds a Qwen2 tokenizer of 256 bytes without merges: every ASCII character is one token.

    transformers 5 loads a model of type qwen2 with Qwen2Tokenizer whatever tokenizer_config.json names, so that class
    it must be.
    """
    tokens = [PAD, START, END, *sorted(ByteLevel.alphabet())]
    tokenizer = Qwen2Tokenizer(
        vocab={token: index for index, token in enumerate(tokens)},
        merges=[],
        pad_token=PAD,
        eos_token=END,
        unk_token=PAD,
        additional_special_tokens=[START],
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def build_model(tokenizer: PreTrainedTokenizerBase, settings: WarmUp, **changes: Any) -> PreTrainedModel:
    """Builds the untrained Qwen2 model.

    Args:
        tokenizer: Where its special tokens come from.
        settings: Its width, depth and seed.
        **changes: Fields of ``Qwen2Config`` that are to be otherwise.
    """
    torch.manual_seed(settings.seed)
    sizes = {
        "vocab_size": 264,
        "hidden_size": settings.hidden_size,
        "intermediate_size": 2 * settings.hidden_size,
        "num_hidden_layers": settings.num_layers,
        "num_attention_heads": 2,  # head_dim 32: the smallest that the attention of vLLM's CPU build has
        "num_key_value_heads": 1,
        "max_position_embeddings": 512,
        "tie_word_embeddings": False,
        "use_sliding_window": False,
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "initializer_range": 0.06,  # three times the usual: so narrow a model learns sooner from larger weights
    }
    model = Qwen2ForCausalLM(Qwen2Config(**(sizes | changes)))
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model


def encode_prompts(tokenizer: PreTrainedTokenizerBase, prompts: list[str]) -> list[list[int]]:
    """Encodes prompts as verl does: one user message and the mark where the assistant starts."""
    chats = [[{"role": "user", "content": prompt}] for prompt in prompts]
    texts = tokenizer.apply_chat_template(chats, add_generation_prompt=True, tokenize=False)
    return tokenizer(texts, add_special_tokens=False).input_ids


def _demonstrations(
    tokenizer: PreTrainedTokenizerBase, difficulty: Difficulty, count: int, rng: random.Random
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draws demonstrations: input ids (count, L) and labels (count, L), -100 on the prompt and on padding."""
    problems = [sample_terms(difficulty, rng) for _ in range(count)]
    prompts = encode_prompts(tokenizer, [format_prompt(terms) for terms in problems])
    responses = [demonstrate(terms, difficulty, rng) + END for terms in problems]
    rows = list(zip(prompts, tokenizer(responses, add_special_tokens=False).input_ids, strict=True))
    length = max(len(prompt) + len(response) for prompt, response in rows)
    input_ids = torch.full((count, length), tokenizer.pad_token_id)
    labels = torch.full((count, length), -100)
    for row, (prompt, response) in enumerate(rows):
        end = len(prompt) + len(response)
        input_ids[row, :end] = torch.tensor(prompt + response)
        labels[row, len(prompt) : end] = torch.tensor(response)
    return input_ids, labels


def warm_up(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    difficulty: Difficulty,
    settings: WarmUp,
    on_step: Callable[[int, float], None] = lambda step, loss: None,
) -> None:
    """Trains the model in place on demonstrations with mistakes, so that its rollouts earn a mixed reward.

    Args:
        model: The model to train.
        tokenizer: Its tokenizer.
        difficulty: The task and how sloppy the demonstrations are.
        settings: Length, batch size, learning rate and seed.
        on_step: Called after each step with the number of steps done and the loss in nats per token.
    """
    rng = random.Random(settings.seed)
    without_mistakes = replace(difficulty, mistake_rate=0.0)
    # The attention patterns form in a few hundred steps only with a quickly forgetting second moment.
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, betas=(0.9, 0.95), weight_decay=0.0)
    total = settings.total_steps
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(10 * (step + 1) / total, 1.0) * (1.0 - step / total)
    )
    model.train()
    for step in range(total):
        stage = difficulty if step >= settings.steps else without_mistakes
        input_ids, labels = _demonstrations(tokenizer, stage, settings.batch_size, rng)
        # Padding is on the right and the attention is causal: no attention mask is needed.
        loss = model(input_ids=input_ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        on_step(step + 1, loss.item())
    model.eval()
