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
from epgrpo_verl.view.traces import TraceLog, load_trace, trace_folder

pytestmark = pytest.mark.slow


def traced_run(
    assets: Path, folder: Path, *overrides: str, mode: str = "sync"
) -> tuple[RealRun, list[TraceStep], TraceLog]:
    """Two steps, with two groups of each advantage computation traced; read as the viewer and as the report does."""
    settings = [f"+algorithm.ep_grpo.trace_dir={folder / 'trace'}", "+algorithm.ep_grpo.trace_every=1"]
    run = train(assets, folder, *settings, "+algorithm.ep_grpo.trace_groups=2", *overrides, mode=mode)
    return run, read_trace(folder / "trace"), load_trace(trace_folder(folder))


def assert_true_trace(
    run: RealRun, steps: list[TraceStep], log: TraceLog, parts: int = 1, groups_in_batch: int = 4
) -> None:
    written = [(step, part) for step in (1, 2) for part in range(1, parts + 1)]
    assert [(step.step, step.header["part"]) for step in steps] == written and len(run.captured) == len(written)
    for step, call in zip(steps, run.captured, strict=True):
        assert len(step.groups) == 2 and step.header["groups_in_batch"] == groups_in_batch
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
    assert log.steps == (1, 2) and log.groups == 4 * parts and not log.damaged
    # The policy is the reference at first, so no token of an all-equal group is recovered and no part is progress.
    for name in ("progress_share", "recovered_tokens"):
        first = dict(zip(*log.series(f"trace/{name}"), strict=True)).get(1, 0.0)
        assert first == 0.0 or parts > 1, name
    assert max(log.series("trace/log_ratio_by_stage")[1]) > 0
    assert log.series("trace/gate")[0]


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


@pytest.mark.nightly
def test_separate_async_computes_each_step_in_two_parts(assets: Path, tmp_path: Path):
    """Two mini-batches of two prompts per weight sync: the estimator runs twice per step."""
    two = ("actor_rollout_ref.actor.ppo_mini_batch_size=2", "trainer.v1.separate_async.parameter_sync_step=2")
    run = traced_run(assets, tmp_path, *two, mode="separate_async")
    assert_true_trace(*run, parts=2, groups_in_batch=2)
