# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Traces that real runs of verl on the CPU wrote, against what the estimator was given and returned in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from real_run import RealRun, train

from epgrpo_verl.quickstart.task import compute_score, parse_prompt, solve
from epgrpo_verl.trace.format import QUANTITIES
from epgrpo_verl.trace.reader import TraceStep, read_trace
from epgrpo_verl.view.page import viewer_page

pytestmark = pytest.mark.slow


def traced_run(assets: Path, folder: Path, *overrides: str) -> tuple[RealRun, list[TraceStep]]:
    """Two steps, with two groups of four of each traced."""
    settings = [f"+algorithm.ep_grpo.trace_dir={folder / 'trace'}", "+algorithm.ep_grpo.trace_every=1"]
    run = train(assets, folder, *settings, "+algorithm.ep_grpo.trace_groups=2", *overrides)
    return run, read_trace(folder / "trace")


def assert_true_trace(run: RealRun, steps: list[TraceStep]) -> None:
    assert [step.step for step in steps] == [1, 2] and len(run.captured) == 2
    for step, call in zip(steps, run.captured, strict=True):
        assert len(step.groups) == 2 and step.header["groups_in_batch"] == 4
        for group in step.groups:
            assert len(group["responses"]) == 4
            sums = set(re.findall(r"[0-9+]+=", group["prompt"]))
            assert len(sums) == 1
            answer = solve(parse_prompt(sums.pop()))
            for response in group["responses"]:
                assert_same_numbers(response, call)
                # verl's reward function saw the decoded response: the tokens are those of this very row.
                text = "".join(response["tokens"]).split("<|im_end|>")[0]
                assert compute_score("", text, answer)["score"] == response["reward"]
    assert len(viewer_page(steps, "a run")) > 10_000


def assert_same_numbers(response: dict, call: dict) -> None:
    row, length = response["row"], len(response["ids"])
    given, result = call["given"], call["result"]
    assert response["mask"] == given["response_mask"][row, :length].int().tolist()
    for name in QUANTITIES:
        source = {"entropy": given["entropy"], "advantage": result.advantages}.get(name)
        expected = (getattr(result, name) if source is None else source)[row, :length]
        traced = torch.tensor([0.0 if value is None else float(value) for value in response[name]])
        valid = given["response_mask"][row, :length] != 0
        torch.testing.assert_close(traced[valid], expected[valid].float(), rtol=1e-4, atol=1e-6, msg=name)
    if "responses" in call["tokens"]:
        assert response["ids"] == call["tokens"]["responses"][row, :length].tolist()


def test_v1(assets: Path, tmp_path: Path):
    assert_true_trace(*traced_run(assets, tmp_path))


@pytest.mark.nightly
def test_v0(assets: Path, tmp_path: Path):
    assert_true_trace(*traced_run(assets, tmp_path, "trainer.use_v1=False"))
