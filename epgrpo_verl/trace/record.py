# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Turns a result of the maths into the records of a trace: plain dicts of numbers and texts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

import torch

from .. import __version__
from ..algorithm import EPGRPOResult
from .format import QUANTITIES, SCHEMA, VERSION

Tokens = tuple[Sequence[int], Sequence[int]]
"""Token ids of the prompt and of the response of one row, without padding."""


def sample_groups(result: EPGRPOResult, count: int, seed: str) -> list[int]:
    """Draw groups that have a valid token, each with the same probability.

    Args:
        result: The batch.
        count: How many to draw; all, if there are no more.
        seed: The same seed and number of groups give the same draw, on every machine.

    Returns:
        Group numbers in rising order.
    """
    groups = sorted(set(result.group[result.valid_row].tolist()))
    return sorted(random.Random(seed).sample(groups, min(count, len(groups))))


def header_record(result: EPGRPOResult, step: int, part: int, norm_adv_by_std: bool) -> dict[str, Any]:
    """The first record of a file: what holds for the whole step.

    Args:
        result: The batch.
        step: Training step, from 1.
        part: Which advantage computation of the step, from 1; more than 1 where verl splits a step.
        norm_adv_by_std: verl's ``norm_adv_by_std_in_grpo``.
    """
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "epgrpo_verl": __version__,
        "step": step,
        "part": part,
        "groups_in_batch": len(result.group[result.valid_row].unique()),
        "norm_adv_by_std_in_grpo": norm_adv_by_std,
        "config": asdict(result.config),
    }


def group_records(
    result: EPGRPOResult,
    entropy: torch.Tensor | None,
    uid: Sequence[Any],
    groups: Sequence[int],
    read_tokens: Callable[[Sequence[int]], Sequence[Tokens]],
    texts: Callable[[Sequence[int]], list[str]] | None,
) -> Iterator[dict[str, Any]]:
    """One record per group, with all its rows that have a valid token.

    Args:
        result: The batch.
        entropy: (bs, T) in nats, as the maths was given it; None if it was not.
        uid: (bs,) what names the group of each row.
        groups: Group numbers.
        read_tokens: Gives the tokens of some rows.
        texts: Gives the text of each token of a sequence; None leaves the texts out.

    Raises:
        ValueError: The tokens of a row do not fit its mask.
    """
    for group in groups:
        rows = ((result.group == group) & result.valid_row).nonzero().flatten()
        part = _rows(result, rows)
        per_token = _per_token(part, None if entropy is None else entropy[rows])
        mask = part.bucket >= 0
        responses, prompts = [], []
        for number, (row, (prompt, response)) in enumerate(zip(rows.tolist(), read_tokens(rows.tolist()), strict=True)):
            length = len(response)
            if length < int(mask[number].nonzero().max()) + 1 or length > mask.shape[1]:
                raise ValueError(f"row {row} has {length} response tokens, which do not fit its response_mask")
            valid = mask[number, :length].tolist()
            prompts.append({"prompt_ids": list(prompt), "prompt": None if texts is None else "".join(texts(prompt))})
            responses.append(
                {
                    "row": row,
                    "reward": _short(part.outcome_reward[number].item()),
                    "votes": bool(part.votes[number]),
                    "grpo_advantage": _short(part.outcome_advantage[number].item()),
                    "anchor": int(part.anchor[number]),
                    "ids": list(response),
                    "tokens": None if texts is None else texts(response),
                    "mask": [int(one) for one in valid],
                    **{name: _values(values, number, valid) for name, values in per_token.items()},
                }
            )
        for response, prompt in zip(responses, prompts, strict=True):
            if prompt != prompts[0]:  # an agent's later turns
                response.update(prompt)
        yield {
            "group": group,
            "uid": str(uid[int(rows[0])]),
            "zero_variance": bool(part.zero_variance[0]),
            **prompts[0],
            "responses": responses,
        }


def _rows(result: EPGRPOResult, rows: torch.Tensor) -> EPGRPOResult:
    """Some rows of a result; every tensor of it has the rows first."""
    tensors = {field.name: getattr(result, field.name) for field in fields(result)}
    return replace(result, **{name: value[rows] for name, value in tensors.items() if isinstance(value, torch.Tensor)})


def _per_token(part: EPGRPOResult, entropy: torch.Tensor | None) -> dict[str, list[list[float]] | None]:
    tensors = {
        "entropy": entropy,
        "gate": part.gate,
        "progress_coordinate": part.progress_coordinate,
        "bucket": part.bucket,
        "log_ratio": part.log_ratio,
        "outcome": part.outcome,
        "progress": part.progress,
        "advantage": part.advantages,
    }
    return {name: None if tensors[name] is None else tensors[name].tolist() for name in QUANTITIES}


def _values(values: list[list[float]] | None, row: int, valid: Sequence[bool]) -> list[float | None] | None:
    if values is None:
        return None
    return [_short(value) if one else None for value, one in zip(values[row], valid, strict=False)]


def _short(value: float) -> float:
    """Five significant digits: more than bfloat16 and float16 hold, and half the size of a float32 in full."""
    return value if isinstance(value, int) else float(f"{value:.5g}")
