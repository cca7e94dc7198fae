# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Graders, checkers, traces, and the command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from typer.testing import CliRunner, Result

from epgrpo_verl import EPGRPOConfig, EPGRPOResult, ep_grpo_advantage
from epgrpo_verl.diagnose import command
from epgrpo_verl.quickstart.model import build_tokenizer, encode_prompts
from epgrpo_verl.quickstart.task import find_steps
from epgrpo_verl.trace.record import group_records, header_record
from epgrpo_verl.trace.text import token_texts
from epgrpo_verl.trace.writer import TraceWriter

GRADER = "epgrpo_verl.quickstart.task:compute_score"
STEPS = "epgrpo_verl.quickstart.task:find_steps"
MAX_TOKENS = 14

PROMPT = "3+5+2="
RIGHT, SLIP, LUCK, WRONG = "3+5=8,8+2=0#0", "3+5=8,8+2=1#1", "3+5=7,7+2=0#0", "3+5=6,6+2=9#9"
"""All right; a right step, then a slip; two slips that cancel; a slip, and another."""
GROUPS = ((RIGHT, SLIP, LUCK, WRONG), (SLIP, SLIP, WRONG, SLIP))
"""Responses to the same prompt: a mixed group, and one that fails as a whole."""


def diagnose(*arguments: Any) -> Result:
    """Call the command."""
    return CliRunner().invoke(command.app, [str(argument) for argument in arguments])


def one_line(text: str) -> str:
    """The text without line breaks."""
    return " ".join(text.split())


def nothing_is_right(data_source: str, solution_str: str, ground_truth: str) -> float:
    """A grader."""
    return 0.0


def fails_at_times(data_source: str, solution_str: str, ground_truth: str) -> float:
    """A grader that raises on some responses."""
    if len(solution_str) % 2:
        raise RuntimeError("no luck")
    return 1.0


def overlapping(prompt: str, response: str) -> list[dict[str, Any]]:
    """A checker whose second step begins before the first ends."""
    return [{"start": 0, "end": 2, "right": True}, {"start": 1, "end": 3, "right": True}]


def beyond_the_end(prompt: str, response: str) -> list[dict[str, Any]]:
    """A checker that counts one character too many."""
    return [{"start": 0, "end": len(response) + 1, "right": True}]


def traced_batch(seed: int) -> tuple[EPGRPOResult, torch.Tensor, list[tuple[list[int], list[int]]]]:
    """EP-GRPO on `GROUPS` with random entropies and log-probs; the second token of row 1 is masked."""
    tokenizer = build_tokenizer()
    prompt = encode_prompts(tokenizer, [PROMPT])[0]
    texts = [response + "<|im_end|>" for group in GROUPS for response in group]
    ids = tokenizer(texts, add_special_tokens=False).input_ids
    width = max(map(len, ids))
    mask = torch.tensor([[column < len(row) for column in range(width)] for row in ids]).long()
    mask[1, 1] = 0
    rewards = torch.zeros(len(ids), width)
    for row, text in enumerate(texts):
        rewards[row, len(ids[row]) - 1] = float(text.startswith((RIGHT, LUCK)))
    generator = torch.Generator().manual_seed(seed)
    entropy, old, ref = (torch.rand(len(ids), width, generator=generator) for _ in range(3))
    uid = ["a"] * len(GROUPS[0]) + ["b"] * len(GROUPS[1])
    result = ep_grpo_advantage(rewards, mask, entropy, -old, -3 * ref, uid, EPGRPOConfig(eta=1.0))
    return result, entropy, [(prompt, row) for row in ids]


def write_trace(folder: Path, steps: Sequence[int] = (1, 10), with_texts: bool = True) -> Path:
    """Write a trace of both groups at each step, with the writer of the plugin."""
    tokenizer = build_tokenizer()
    writer = TraceWriter(folder, every=1, max_mb=10)

    def texts(ids: Sequence[int]) -> list[str]:
        return token_texts(tokenizer, ids)

    for step in steps:
        result, entropy, tokens = traced_batch(step)

        def read(rows: Sequence[int], tokens=tokens) -> list[tuple[list[int], list[int]]]:
            return [tokens[row] for row in rows]

        records = group_records(result, entropy, ["a"] * 4 + ["b"] * 4, [0, 1], read, texts if with_texts else None)
        writer.write(step, [header_record(result, step, 1, True), *records])
    return folder


def expected_shares(steps: Sequence[int], kind: str) -> dict[str, float]:
    """Shares of polarity from the tensors of the same batches, token by token; every character is a token here."""
    punished, rewarded_wrong = [], []
    for seed in steps:
        result, _, _ = traced_batch(seed)
        rows = [response for group in GROUPS for response in group]
        for row, response in enumerate(rows):
            valid = result.bucket[row] >= 0
            per_token = result.advantages[row] if kind == "ep_grpo" else result.outcome_advantage[row].expand_as(valid)
            for step in find_steps(PROMPT, response):
                inside = torch.zeros_like(valid)
                inside[step.start : step.end] = True
                mean = per_token[inside & valid].double().mean().item()
                won = result.outcome_reward[row].item() == 1
                if step.right and not won:
                    punished.append(mean < 0)
                if won and not step.right:
                    rewarded_wrong.append(mean > 0)
    return {
        "right_punished": sum(punished) / len(punished),
        "wrong_rewarded": sum(rewarded_wrong) / len(rewarded_wrong),
    }
