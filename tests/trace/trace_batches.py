# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""A batch whose tokens are known, its result, and traces made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from epgrpo_verl import EPGRPOConfig, EPGRPOResult, ep_grpo_advantage
from epgrpo_verl.trace.record import group_records, header_record
from epgrpo_verl.trace.writer import TraceWriter

HOSTILE = (
    "</script><script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=1>",
    "<!--<script>",
    "{{script}}{{data}}",
    "\u202eright to left",
    "\u2028\u2029\u0000",
    "&lt;b&gt;&amp;",
    "'\"`\\",
    "line\n\tend",
    "",
    "\U0001f600",
)
"""Texts that a model could write, one per token id from 0; ids beyond are words."""


@dataclass
class Batch:
    """Tensors of a batch, and the token ids of its rows.

    Row 2 has a hole in its mask, row 12 has no valid token.
    """

    rewards: torch.Tensor
    mask: torch.Tensor
    entropy: torch.Tensor
    old_log_probs: torch.Tensor
    ref_log_prob: torch.Tensor
    uid: list[str]
    prompts: list[list[int]]
    responses: list[list[int]]

    def result(self, config: EPGRPOConfig | None = None) -> EPGRPOResult:
        """EP-GRPO of the batch."""
        tokens = (self.rewards, self.mask, self.entropy, self.old_log_probs, self.ref_log_prob)
        return ep_grpo_advantage(*tokens, self.uid, config)

    def read_tokens(self, rows: Sequence[int]) -> list[tuple[list[int], list[int]]]:
        """As a feed's."""
        return [(self.prompts[row], self.responses[row]) for row in rows]


def make_batch(columns: int = 30, seed: int = 0) -> Batch:
    """Groups "a" (mixed), "b" (all wrong) and "c" (all right), interleaved, of four rows each, and a padding row."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(columns // 2, columns + 1, (13,), generator=generator)
    lengths[12] = 0
    mask = (torch.arange(columns) < lengths.unsqueeze(1)).long()
    mask[2, 4:7] = 0
    rewards = torch.zeros(13, columns)
    for row in range(12):
        right = {0: row in (0, 9), 1: False, 2: True}[row % 3]
        rewards[row, lengths[row] - 1] = float(right)
    table = [torch.rand(13, columns, generator=generator) for _ in range(3)]
    responses = [[(row * 7 + column) % 40 for column in range(length)] for row, length in enumerate(lengths.tolist())]
    prompts = [[100 + row % 3, 0, 1] for row in range(13)]
    return Batch(rewards, mask, table[0] * 2, -table[1], -table[2], [*"abc" * 4, "pad0"], prompts, responses)


def texts(ids: Sequence[int]) -> list[str]:
    """The text of each token: a hostile one for the first ids, a word for the others."""
    return [HOSTILE[token] if token < len(HOSTILE) else f" word{token}" for token in ids]


def write_trace(folder: Path, steps: Sequence[int] = (1, 10), config: EPGRPOConfig | None = None, **batch) -> Path:
    """Write a trace of all three groups at each step; the numbers differ from step to step."""
    writer = TraceWriter(folder, every=1, max_mb=10)
    for step in steps:
        given = make_batch(seed=step, **batch)
        result = given.result(config)
        records = group_records(result, given.entropy, given.uid, [0, 1, 2], given.read_tokens, texts)
        writer.write(step, [header_record(result, step, 1, True), *records])
    return folder
