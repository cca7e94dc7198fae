# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""How a problem is put to the model, in training and evaluation alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .errors import PrepareError

INSTRUCTION = r"Please reason step by step, and put your final answer within \boxed{}."
"""Put behind every problem. A choice: the paper's prompt is not known to us, and the grader needs the box."""


def user_message(problem: str) -> list[dict[str, str]]:
    """The chat messages of a problem, as verl's ``prompt`` column holds them."""
    return [{"role": "user", "content": f"{problem.strip()}\n\n{INSTRUCTION}"}]


def token_counter(model: str) -> Callable[[Sequence[str]], list[int]]:
    """A function that counts the tokens of problems as prompts, with the chat template of a model.

    The prompts are rendered as verl's rollout renders them: with the generation prompt, and without adding special
    tokens a second time.

    Args:
        model: A name on the Hugging Face hub, or a local folder.

    Raises:
        PrepareError: The tokenizer cannot be loaded or has no chat template.
    """
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise PrepareError("counting prompt tokens needs transformers: pip install transformers") from error
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(model)
    except Exception as error:
        raise PrepareError(
            f"the tokenizer of --model {model} could not be loaded: {type(error).__name__}: {error}. "
            "Give a local folder or a model that this machine can download."
        ) from error
    if not tokenizer.chat_template:
        raise PrepareError(f"the tokenizer of --model {model} has no chat template")

    def count(problems: Sequence[str]) -> list[int]:
        texts = [
            tokenizer.apply_chat_template(user_message(problem), add_generation_prompt=True, tokenize=False)
            for problem in problems
        ]
        return [len(ids) for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]]

    return count
