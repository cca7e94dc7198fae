# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the tiny model and the chained sums to a folder that verl can train from."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from epgrpo_verl.quickstart import folder
from epgrpo_verl.quickstart.model import WarmUp, build_model, build_tokenizer, warm_up
from epgrpo_verl.quickstart.task import Difficulty, format_prompt, sample_terms, solve

DATA_SOURCE = "chained_sums"

# Counted up when the code changes what the same settings produce.
FORMAT = 3


def make_rows(difficulty: Difficulty, count: int, split: str, seed: int) -> pd.DataFrame:
    """Draws problems in the columns that verl's dataset reads.

    The problems of one split and seed are always the same. Splits may share problems: there are few enough of them,
    and the warm-up has seen the same distribution.
    """
    rng = random.Random(f"{split}/{seed}")
    rows = []
    for index in range(count):
        terms = sample_terms(difficulty, rng)
        rows.append(
            {
                "data_source": DATA_SOURCE,
                "prompt": [{"role": "user", "content": format_prompt(terms)}],
                "ability": "math",
                "reward_model": {"style": "rule", "ground_truth": solve(terms)},
                "extra_info": {"split": split, "index": index, "question": format_prompt(terms)},
            }
        )
    return pd.DataFrame(rows)


def settings_of(difficulty: Difficulty, warm: WarmUp, num_train: int, num_test: int) -> dict[str, Any]:
    """Collects everything that decides the content of the folder, with a hash of it under ``key``."""
    settings: dict[str, Any] = {
        "format": FORMAT,
        "difficulty": asdict(difficulty),
        "warm_up": asdict(warm),
        "num_train": num_train,
        "num_test": num_test,
    }
    text = json.dumps(settings, sort_keys=True)
    return {"key": hashlib.sha256(text.encode()).hexdigest()[:16], **json.loads(text)}


def prepare(
    out: Path,
    difficulty: Difficulty,
    warm: WarmUp | None = None,
    num_train: int = 1024,
    num_test: int = 64,
    on_step: Callable[[int, float], None] = lambda step, loss: None,
) -> bool:
    """Writes ``model/``, ``train.parquet``, ``test.parquet`` and ``settings.json`` to ``out``.

    Args:
        out: The folder; whatever a former call left there is replaced.
        difficulty: The task.
        warm: The model and its warm-up; the defaults if None.
        num_train: Training prompts.
        num_test: Validation prompts.
        on_step: Called after each step of the warm-up, see :func:`epgrpo_verl.quickstart.model.warm_up`.

    Returns:
        False where the folder already holds the result of the same settings, so that nothing was done.

    Raises:
        ForeignFolderError: The folder has other files in it.
    """
    warm = warm or WarmUp()
    settings = settings_of(difficulty, warm, num_train, num_test)
    if folder.read_settings(out) == settings:
        return False
    with folder.making(out):
        if folder.read_settings(out) == settings:  # another process has made it meanwhile
            return False
        folder.begin(out)
        shutil.rmtree(out / "model", ignore_errors=True)

        tokenizer = build_tokenizer()
        model = build_model(tokenizer, warm)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # the same bits on any number of cores, and no slower for a model this small
        try:
            warm_up(model, tokenizer, difficulty, warm, on_step)
        finally:
            torch.set_num_threads(threads)
        model.save_pretrained(out / "model")
        tokenizer.save_pretrained(out / "model")
        make_rows(difficulty, num_train, "train", warm.seed).to_parquet(out / "train.parquet")
        make_rows(difficulty, num_test, "test", warm.seed).to_parquet(out / "test.parquet")
        folder.finish(out, settings)
    return True
