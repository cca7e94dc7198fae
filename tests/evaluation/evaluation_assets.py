# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""A tiny untrained model, problems and an adapter; and the commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from typer.testing import CliRunner, Result

from epgrpo_verl.evaluation import command, compare_command
from epgrpo_verl.evaluation.store import SAMPLES
from epgrpo_verl.quickstart.model import WarmUp, build_model, build_tokenizer

GRADER = "evaluation_graders:a_third_is_right"
MAX_TOKENS = 12


def save_model(folder: Path) -> Path:
    """Write an untrained Qwen2 with a byte tokenizer; it speaks at random, and now and then comes to an end."""
    tokenizer = build_tokenizer()
    build_model(tokenizer, WarmUp()).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_adapter(folder: Path, model: Path, rank: int = 4, scale: float = 0.5) -> Path:
    """Write a LoRA adapter that changes what the model says."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(1)
    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=["q_proj", "v_proj", "down_proj"])
    adapted = get_peft_model(AutoModelForCausalLM.from_pretrained(model), config)
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=scale)
    adapted.save_pretrained(folder)
    return folder


def rows(name: str, count: int, offset: int = 0) -> list[dict[str, Any]]:
    """Problems with verl's columns."""
    return [
        {
            "data_source": name,
            "prompt": [{"role": "user", "content": f"{number}+{number}="}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": str(2 * number)},
            "extra_info": {"split": "test", "index": number, "id": f"{name}-{number}"},
        }
        for number in range(offset, offset + count)
    ]


def save_problems(path: Path, name: str, count: int, offset: int = 0) -> Path:
    """Write problems as parquet."""
    pd.DataFrame(rows(name, count, offset)).to_parquet(path)
    return path


def evaluate(*arguments: Any) -> Result:
    """Call the command."""
    return CliRunner().invoke(command.app, [str(argument) for argument in arguments])


def compare(*arguments: Any) -> Result:
    """Call the other command."""
    return CliRunner().invoke(compare_command.app, [str(argument) for argument in arguments])


def one_line(text: str) -> str:
    """The text without line breaks."""
    return " ".join(text.split())


def stored(folder: Path) -> dict[tuple[str, str, int], dict[str, Any]]:
    """The samples of a run, as they stand in its file."""
    lines = (folder / SAMPLES).read_text(encoding="utf-8").split("\n")[:-1]
    samples = [json.loads(line) for line in lines]
    found = {(sample["set"], sample["id"], sample["sample"]): sample for sample in samples}
    assert len(found) == len(samples), "a sample is there twice"
    return found
