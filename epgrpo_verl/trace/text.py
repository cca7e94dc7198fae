# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The text of single tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

UNFINISHED = "\ufffd"
"""What decoding gives for bytes that are not a whole character."""


def load_tokenizer(path: str, trust_remote_code: bool = False) -> Any:
    """Load a tokenizer with transformers, which is imported here and nowhere else in this package.

    Args:
        path: Folder or hub name, as ``actor_rollout_ref.model.path``.
        trust_remote_code: Whether code that comes with the model may run.

    Returns:
        A transformers tokenizer.

    Raises:
        Exception: Whatever transformers raises when there is no tokenizer.
    """
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(path, trust_remote_code=trust_remote_code)


def token_texts(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """The text that each token adds. Joined, the texts are the text of all tokens.

    A character whose bytes are spread over several tokens belongs to the last of them; the others have "".

    Args:
        tokenizer: Has ``decode(ids, skip_special_tokens=False)``.
        ids: Token ids of one sequence.

    Returns:
        One text per token.
    """
    ids = list(ids)
    alone = {token: _decode(tokenizer, [token]) for token in set(ids)}
    texts = [alone[token] for token in ids]
    # Not so for tokenizers that drop a leading space, or split a character over tokens.
    return texts if "".join(texts) == _decode(tokenizer, ids) else _grow(tokenizer, ids)


def _grow(tokenizer: Any, ids: list[int]) -> list[str]:
    """Decode a short window that ends at each token, with and without what came after the last whole character."""
    texts = []
    start = done = 0  # the window begins at `start`; the texts of the tokens before `done` are given out
    for end in range(1, len(ids) + 1):
        before = _decode(tokenizer, ids[start:done])
        now = _decode(tokenizer, ids[start:end])
        if now.endswith(UNFINISHED) and end < len(ids):
            texts.append("")
            continue
        texts.append(now[len(before) :])
        start, done = done, end
    return texts


def _decode(tokenizer: Any, ids: list[int]) -> str:
    return tokenizer.decode(ids, skip_special_tokens=False)
