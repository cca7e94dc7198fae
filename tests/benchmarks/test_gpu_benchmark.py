# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The benchmark for a GPU, on the CPU with its small sizes: does it measure what it says?"""

from __future__ import annotations

import json
from copy import deepcopy

import pytest
import torch
from typer.testing import CliRunner

from benchmarks.gpu import parts
from benchmarks.gpu.__main__ import app
from benchmarks.gpu.bench import STEPS, compose
from benchmarks.gpu.measure import REPEATS, measure
from benchmarks.gpu.sizes import FULL, SMALL, build_model
from epgrpo_verl.plugin.policy_loss import SLOPE

CPU = torch.device("cpu")


@pytest.fixture
def step() -> parts.Step:
    model, reference = (build_model(SMALL, CPU, torch.float32) for _ in range(2))
    return parts.Step(model, reference, SMALL, CPU)


@pytest.fixture
def batch(step) -> dict:
    made = parts.make_batch(SMALL.rows, SMALL.response, SMALL.group, CPU)
    made["response_mask"] = torch.ones_like(made["response_mask"])
    return made | step.old_log_prob(chunked=False) | step.ref_log_prob()


def test_the_command_writes_every_part_and_the_ratios(tmp_path):
    done = CliRunner().invoke(app, ["--device", "cpu", "--small", "--out", str(tmp_path / "gpu.json")])
    assert done.exit_code == 0, done.output
    result = json.loads((tmp_path / "gpu.json").read_text())
    measured, steps = result["parts"], result["steps"]
    assert result["ended_before"] is None
    assert all(part["seconds"] > 0 and part["extra_bytes"] is None for part in measured.values())
    assert {f"advantage {rows}x{columns} on cpu/ep_grpo" for rows, columns in SMALL.advantage} <= measured.keys()
    assert steps.keys() == STEPS.keys()
    baseline = sum(measured[part]["seconds"] for part in STEPS["grpo"])
    extra = measured["ref_log_prob"]["seconds"] + measured["advantage/ep_grpo"]["seconds"]
    expected = (baseline - measured["advantage/grpo"]["seconds"] + extra) / baseline
    assert steps["ep_grpo"]["over_grpo"] == pytest.approx(expected)
    assert "float32" in done.output


def test_without_time_nothing_is_measured_and_nothing_is_claimed(tmp_path):
    done = CliRunner().invoke(app, ["--device", "cpu", "--small", "--budget", "0", "--out", str(tmp_path / "gpu.json")])
    result = json.loads((tmp_path / "gpu.json").read_text())
    assert done.exit_code == 0
    assert result["parts"] == result["steps"] == {}
    assert result["ended_before"] == "old_log_prob"
    assert "not measured are old_log_prob and what comes after it" in done.output


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_default_says_what_to_do():
    done = CliRunner().invoke(app, [])
    assert done.exit_code == 2
    assert "--device cpu --small" in done.output


def test_a_step_of_which_a_part_is_missing_is_not_made_up():
    seconds = {"old_log_prob": 1.0, "advantage/grpo": 1.0, "update/vanilla": 2.0, "advantage/ep_grpo": 1.0}
    assert compose(seconds) == {"grpo": {"seconds": 4.0, "over_grpo": 1.0}}
    assert compose(seconds | {"ref_log_prob": 1.0})["ep_grpo"] == {"seconds": 5.0, "over_grpo": 1.25}
    assert compose({"old_log_prob": 1.0}) == {}


def test_a_function_is_called_once_more_than_it_is_measured():
    calls = []
    result = measure(lambda: calls.append(1), CPU)
    assert (len(calls), result.calls, result.extra_bytes) == (REPEATS + 1, REPEATS, None)


def test_both_ways_to_the_entropy_agree():
    logits = parts.make_logits(3 * parts.CHUNK // 2, 64, CPU, torch.float32)
    torch.testing.assert_close(parts.entropy(logits, True), parts.entropy(logits, False), rtol=1e-5, atol=1e-5)


def test_the_passes_give_the_log_probs_of_the_responses(step, batch):
    with torch.no_grad():
        every = torch.log_softmax(step.model(step.tokens).logits, -1)
    for row in range(SMALL.rows):
        for column in range(SMALL.response):
            position = SMALL.prompt + column
            expected = every[row, position - 1, step.tokens[row, position]]
            assert batch["old_log_probs"][row, column].item() == pytest.approx(expected.item(), abs=1e-4)
    assert not torch.equal(batch["old_log_probs"], batch["ref_log_prob"])


@pytest.mark.parametrize(("rows", "columns"), [(16, 64), (64, 512)])
def test_the_batches_pass_the_plugin_checks_and_have_groups_of_equal_rewards(rows, columns):
    batch = parts.make_batch(rows, columns, 8, CPU)
    ours, theirs = (parts.advantage(name, batch)["advantages"] for name in ("ep_grpo", "grpo"))
    mask = batch["response_mask"].bool()
    assert torch.isfinite(ours).all() and not torch.equal(ours, theirs)
    assert (ours[:8][mask[:8]] != 0).any() and (theirs[:8] == 0).all()


def test_the_update_moves_the_policy_and_the_hook_moves_it_otherwise(step, batch):
    """The hook changes the loss only where the policy has moved away from the old log-probs."""
    inputs = {name: batch[name] for name in ("response_mask", "old_log_probs")}
    inputs |= parts.advantage("ep_grpo", batch, wants_slope=True)
    assert inputs[SLOPE].abs().sum() > 0
    before = deepcopy(step.model.state_dict())

    def gradient(loss_mode: str) -> torch.Tensor:
        step.model.load_state_dict(before)
        step.optimizer = torch.optim.SGD(step.model.parameters(), lr=1.0)
        step.update(loss_mode, inputs)
        return torch.cat([(before[name] - value).flatten() for name, value in step.model.state_dict().items()])

    on_policy = gradient("vanilla")
    assert on_policy.abs().sum() > 0
    torch.testing.assert_close(gradient("ep_grpo"), on_policy, rtol=1e-3, atol=1e-6)
    inputs["old_log_probs"] = inputs["old_log_probs"] - 0.05
    assert not torch.allclose(gradient("ep_grpo"), gradient("vanilla"), rtol=1e-2, atol=1e-5)


def test_the_full_model_is_of_the_shape_it_says():
    with torch.device("meta"):
        model = build_model(FULL, torch.device("meta"), torch.bfloat16)
    assert 0.45e9 < sum(weight.numel() for weight in model.parameters()) < 0.55e9
