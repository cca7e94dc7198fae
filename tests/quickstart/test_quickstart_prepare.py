# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The tiny model, its tokenizer, and the folder that verl trains from."""

from __future__ import annotations

import os
import shutil
import threading
import unicodedata
from pathlib import Path

import pandas as pd
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2Tokenizer

from epgrpo_verl.quickstart.folder import ForeignFolderError
from epgrpo_verl.quickstart.model import CHAT_TEMPLATE, WarmUp, build_tokenizer, encode_prompts
from epgrpo_verl.quickstart.prepare import make_rows, prepare, settings_of
from epgrpo_verl.quickstart.task import DIFFICULTIES, solve

EASY = DIFFICULTIES["easy"]
SHORT = WarmUp(steps=3, sloppy_steps=2, batch_size=4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("quickstart")
    assert prepare(out, EASY, SHORT, num_train=32, num_test=8)
    return out


@given(st.text(max_size=40))
@example("\uf900e\u0301")
@settings(max_examples=50)
def test_any_text_survives_the_tokenizer(text):
    tokenizer = build_tokenizer()
    ids = tokenizer(text, add_special_tokens=False).input_ids
    # Qwen2's tokenizers compose characters first (NFC).
    expected = unicodedata.normalize("NFC", text)
    assert tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False) == expected


def test_every_character_of_the_task_is_one_token():
    tokenizer = build_tokenizer()
    text = "0123456789+=,#"
    assert len(tokenizer(text, add_special_tokens=False).input_ids) == len(text)


def test_the_saved_tokenizer_loads_as_itself(folder):
    loaded = AutoTokenizer.from_pretrained(folder / "model")
    assert isinstance(loaded, Qwen2Tokenizer)
    assert loaded.chat_template == CHAT_TEMPLATE
    assert (loaded.eos_token, loaded.pad_token) == ("<|im_end|>", "<|endoftext|>")
    assert encode_prompts(loaded, ["1+2="]) == encode_prompts(build_tokenizer(), ["1+2="])
    assert loaded.decode(encode_prompts(loaded, ["1+2="])[0]) == "<|im_start|>u\n1+2=<|im_end|>\n<|im_start|>a\n"


def test_prompts_and_responses_fit_the_lengths_of_the_recipe(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    for difficulty, max_response in ((DIFFICULTIES["easy"], 24), (DIFFICULTIES["hard"], 36)):
        prompt = "+".join("0" * difficulty.num_terms) + "="
        assert len(encode_prompts(tokenizer, [prompt])[0]) <= 32
        assert difficulty.response_chars + 1 <= max_response


def test_the_model_generates_and_stops_at_its_end_token(folder):
    model = AutoModelForCausalLM.from_pretrained(folder / "model")
    assert model.generation_config.eos_token_id == model.config.eos_token_id == build_tokenizer().eos_token_id
    assert sum(parameter.numel() for parameter in model.parameters()) < 200_000


def test_the_same_settings_are_made_once_and_others_anew(folder):
    before = os.stat(folder / "model" / "model.safetensors").st_mtime_ns
    assert not prepare(folder, EASY, SHORT, num_train=32, num_test=8)
    assert os.stat(folder / "model" / "model.safetensors").st_mtime_ns == before
    keys = {
        settings_of(difficulty, warm, 32, 8)["key"]
        for difficulty in DIFFICULTIES.values()
        for warm in (SHORT, WarmUp(seed=1), WarmUp())
    }
    assert len(keys) == 6


def test_an_interrupted_preparation_is_done_again(folder, tmp_path):
    class Interrupted(Exception):
        pass

    def interrupt(step: int, loss: float) -> None:
        raise Interrupted

    with pytest.raises(Interrupted):
        prepare(tmp_path, EASY, SHORT, on_step=interrupt)
    assert prepare(tmp_path, EASY, SHORT, num_train=32, num_test=8)


def test_two_at_once_make_the_folder_once(tmp_path):
    results, steps = [], []
    threads = []

    def again() -> None:
        results.append(prepare(tmp_path, EASY, SHORT, 32, 8, on_step=lambda step, loss: steps.append(step)))

    def on_step(step: int, loss: float) -> None:
        if not threads:
            threads.append(threading.Thread(target=again))
            threads[0].start()

    assert prepare(tmp_path, EASY, SHORT, 32, 8, on_step=on_step)
    threads[0].join(60)
    assert (results, steps) == ([False], [])


@pytest.mark.parametrize("file", ["train.parquet", "model/model.safetensors", "settings.json"])
def test_a_folder_that_lost_a_file_is_made_again(folder, tmp_path, file):
    again = tmp_path / "data"
    shutil.copytree(folder, again)
    assert not prepare(again, EASY, SHORT, num_train=32, num_test=8)
    (again / file).write_bytes(b"")
    assert prepare(again, EASY, SHORT, num_train=32, num_test=8)
    assert (again / file).stat().st_size > 0


def test_files_that_no_recipe_made_are_left_alone(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.safetensors").write_text("precious")
    with pytest.raises(ForeignFolderError, match="set DATA_DIR to another folder"):
        prepare(tmp_path, EASY, SHORT, num_train=32, num_test=8)
    assert [path.name for path in tmp_path.rglob("*")] == ["model", "mine.safetensors"]


def test_the_warm_up_gives_the_same_weights_for_the_same_seed(folder, tmp_path):
    threads = torch.get_num_threads()
    prepare(tmp_path / "again", EASY, SHORT, num_train=32, num_test=8)
    prepare(tmp_path / "other", EASY, WarmUp(steps=3, sloppy_steps=2, batch_size=4, seed=1), num_train=32, num_test=8)
    assert torch.get_num_threads() == threads
    weights = [
        (path / "model/model.safetensors").read_bytes() for path in (folder, tmp_path / "again", tmp_path / "other")
    ]
    assert weights[0] == weights[1] != weights[2]


def test_rows_have_the_columns_that_verl_reads(folder):
    rows = pd.read_parquet(folder / "train.parquet")
    assert len(rows) == 32
    assert set(rows.columns) == {"data_source", "prompt", "ability", "reward_model", "extra_info"}
    for row in rows.itertuples():
        question = row.prompt[0]["content"]
        assert row.extra_info["question"] == question
        assert row.reward_model["ground_truth"] == solve([int(term) for term in question[:-1].split("+")])
    assert make_rows(EASY, 8, "test", 0).equals(make_rows(EASY, 8, "test", 0))
    assert not make_rows(EASY, 8, "test", 0).equals(make_rows(EASY, 8, "test", 1))
