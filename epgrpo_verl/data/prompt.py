# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""How a problem is put to the model, in training and evaluation alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .errors import PrepareError

INSTRUCTION = r"Please reason step by step, and put your final answer within \boxed{}."
"""Put behind every problem. A choice: the paper's prompt is not known to us, and the grader needs the box."""


def user_message(problem: str) -> list[dict[str, str]]:
    """The chat messages of a problem, as verl's ``prompt`` column holds them."""
    return [{"role": "user", "content": f"{problem.strip()}\n\n{INSTRUCTION}"}]


def load_tokenizer(model: str) -> Any:
    """Load the tokenizer of a model, which must have a chat template.

    Args:
        model: A name on the Hugging Face hub, or a local folder.

    Raises:
        PrepareError: The tokenizer cannot be loaded or has no chat template.
    """
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise PrepareError("rendering prompts needs transformers: pip install transformers") from error
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(model)
    except Exception as error:
        raise PrepareError(
            f"the tokenizer of --model {model} could not be loaded: {type(error).__name__}: {error}. "
            "Give a local folder or a model that this machine can download."
        ) from error
    if not tokenizer.chat_template:
        raise PrepareError(f"the tokenizer of --model {model} has no chat template")
    return tokenizer


def prompt_ids(tokenizer: Any, conversations: Iterable[Sequence[dict[str, str]]]) -> list[list[int]]:
    """Token ids of chats as verl's rollout renders them.

    That is with the generation prompt, and without adding special tokens a second time.
    """
    texts = [
        tokenizer.apply_chat_template(list(messages), add_generation_prompt=True, tokenize=False)
        for messages in conversations
    ]
    return tokenizer(texts, add_special_tokens=False)["input_ids"]


def token_counter(model: str) -> Callable[[Sequence[str]], list[int]]:
    """A function that counts the tokens of problems as prompts, with the chat template of a model.

    Args:
        model: A name on the Hugging Face hub, or a local folder.

    Raises:
        PrepareError: As for `load_tokenizer`.
    """
    tokenizer = load_tokenizer(model)

    def count(problems: Sequence[str]) -> list[int]:
        return [len(ids) for ids in prompt_ids(tokenizer, map(user_message, problems))]

    return count
