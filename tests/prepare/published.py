# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Files as their publishers write them, with made-up problems, and a tiny tokenizer with a chat template."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ANSWERS = Path(__file__).parents[1] / "data" / "benchmarks"
SAMPLES = Path(__file__).parent / "samples"


def published_answers(name: str) -> list[str]:
    """The answers of a benchmark, in the order of its published file."""
    return [json.loads(line)["answer"] for line in (ANSWERS / f"{name}.jsonl").read_text().splitlines()]


def made_up(name: str, number: int) -> str:
    """A problem that is like no other: its words spell out the name and the number."""
    return f"Let quantity {name} number {number} be as in exercise {number}. What is its value?"


def published_rows(name: str) -> list[dict[str, Any]]:
    """The rows of a benchmark with the columns of its published file."""
    rows = []
    for number, answer in enumerate(published_answers(name)):
        text = made_up(name, number)
        rows.append(
            {
                "math500": lambda text, answer, n: {"problem": text, "answer": answer, "unique_id": f"test/{n}.json"},
                "amc23": lambda text, answer, n: {"id": n, "answer": float(answer), "url": "u", "question": text},
                "minerva": lambda text, answer, n: {"question": text, "answer": answer},
                "aime24": lambda text, answer, n: {"id": n, "problem": text, "solution": rf"\boxed{{{answer}}}"},
                "aime25": lambda text, answer, n: {"problem": text, "answer": answer, "id": str(n)},
            }[name](text, answer, number)
        )
    return rows


def skywork_row(index: int, text: str, golds: list[str], difficulty: int = 8) -> dict[str, Any]:
    """A row as in Skywork-OR1-RL-Data, split math."""
    return {
        "data_source": "train-math-numinamath1.5_olympiads",
        "prompt": [{"role": "user", "content": text}],
        "ability": "math",
        "reward_model": {"ground_truth": json.dumps(golds), "style": "rule"},
        "extra_info": {
            "index": index,
            "model_difficulty": {
                "DeepSeek-R1-Distill-Qwen-1.5B": 16,
                "DeepSeek-R1-Distill-Qwen-7B": difficulty,
                "DeepSeek-R1-Distill-Qwen-32B": 0,
            },
        },
    }


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows as JSON Lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows as parquet."""
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def write_tokenizer(folder: Path) -> str:
    """A tokenizer in which every word is a token, with a chat template of the kind that Qwen2.5 has."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0, "<|im_start|>": 1, "<|im_end|>": 2}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unk>",
        eos_token="<|im_end|>",
        pad_token="<|im_end|>",
        additional_special_tokens=["<|im_start|>"],
    )
    fast.chat_template = (
        "{% for m in messages %}<|im_start|> {{ m['role'] }} {{ m['content'] }} <|im_end|> {% endfor %}"
        "{% if add_generation_prompt %}<|im_start|> assistant {% endif %}"
    )
    fast.save_pretrained(folder)
    return str(folder)
