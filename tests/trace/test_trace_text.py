# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The text of single tokens, with real tokenizers."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from epgrpo_verl.quickstart.model import build_tokenizer
from epgrpo_verl.trace.text import token_texts

TEXT = "3+5=8 caf\u00e9 \u4f60\u597d \U0001f600 end\n"


def test_characters_of_several_tokens_belong_to_the_last_of_them():
    tokenizer = build_tokenizer()
    ids = tokenizer.encode(TEXT)
    texts = token_texts(tokenizer, ids)
    assert len(texts) == len(ids) == len(TEXT.encode())
    assert "".join(texts) == TEXT
    assert texts[:5] == list("3+5=8")
    assert texts[8 + 1 : 8 + 3] == ["", "\u00e9"]
    assert [text for text in texts if len(text.encode()) == 4] == ["\U0001f600"]


def test_special_tokens_are_shown():
    tokenizer = build_tokenizer()
    ids = [*tokenizer.encode("1"), tokenizer.eos_token_id]
    assert token_texts(tokenizer, ids) == ["1", tokenizer.eos_token]


def test_an_unfinished_character_at_the_end_is_a_sign_of_its_own():
    tokenizer = build_tokenizer()
    ids = tokenizer.encode("ab\u00e9")[:-1]
    assert token_texts(tokenizer, ids) == ["a", "b", "\ufffd"]


def test_a_tokenizer_that_drops_the_leading_space_of_a_text_keeps_those_between_words():
    words = ["\u2581the", "\u2581cat", "s", "<unk>"]
    core = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    core.decoder = decoders.Metaspace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<unk>")
    assert tokenizer.decode([1]) == "cat"
    assert token_texts(tokenizer, [0, 1, 2, 0]) == ["the", " cat", "s", " the"]


@pytest.mark.parametrize("ids", [[], [5]])
def test_none_and_one(ids):
    tokenizer = build_tokenizer()
    assert "".join(token_texts(tokenizer, ids)) == tokenizer.decode(ids)
