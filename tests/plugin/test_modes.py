# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Every way of running verl that the plugin supports, end to end on the CPU. Two steps each, checked as one run."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from real_run import RealRun, assert_equals_slow_reference, largest_log_ratio, train

from epgrpo_verl.algorithm import METRICS

pytestmark = [pytest.mark.slow, pytest.mark.nightly]
LOSS_MODE = "actor_rollout_ref.actor.policy_loss.loss_mode"
TWO_UPDATES = "actor_rollout_ref.actor.ppo_mini_batch_size=2"
DECOUPLED = ("actor_rollout_ref.rollout.calculate_log_probs=True", "algorithm.rollout_correction.bypass_mode=False")


def assert_trained(run: RealRun, steps: int = 2, calls_per_step: int = 1) -> None:
    """The estimator's numbers are right, reached the logger, and the policy moved away from the reference."""
    assert len(run.captured) == steps * calls_per_step
    for call in run.captured:
        assert_equals_slow_reference(call)
    assert largest_log_ratio(run.captured[0]) == 0.0
    assert largest_log_ratio(run.captured[-1]) > 1e-4
    for step in range(1, steps + 1):
        assert set(METRICS) <= set(run.metrics[step]), f"step {step}"
        advantages = torch.cat(
            [
                call["result"].advantages[call["given"]["response_mask"] != 0]
                for call in run.captured[(step - 1) * calls_per_step : step * calls_per_step]
            ]
        )
        assert run.metrics[step]["critic/advantages/max"] == pytest.approx(advantages.max().item(), abs=1e-5)
        assert run.metrics[step]["critic/advantages/min"] == pytest.approx(advantages.min().item(), abs=1e-5)


def assert_refreshed(run: RealRun) -> None:
    """The slope reached the actor's workers: with two updates per step, the second one had something to refresh.

    At step 1 policy and reference are one, so no bucket has a spread and there is no slope.
    """
    assert run.metrics[1]["actor/ep_grpo/refresh_abs_mean"] == 0.0
    assert run.metrics[2]["actor/ep_grpo/refresh_abs_mean"] > 0.0


def test_v1_sync_with_lora_and_the_policy_loss(assets: Path, tmp_path: Path):
    """LoRA: the reference is the actor with its adapter off."""
    run = train(
        assets,
        tmp_path,
        "actor_rollout_ref.model.lora_rank=32",
        "actor_rollout_ref.model.lora_alpha=32",
        "actor_rollout_ref.model.lora.merge=True",
        f"{LOSS_MODE}=ep_grpo",
        TWO_UPDATES,
    )
    assert_trained(run)
    assert_refreshed(run)


def test_v0_with_a_separate_reference_and_a_policy_loss_over_gspo(assets: Path, tmp_path: Path):
    run = train(assets, tmp_path, "trainer.use_v1=False", f"{LOSS_MODE}=ep_grpo/gspo", TWO_UPDATES)
    assert_trained(run)
    assert_refreshed(run)


def test_colocate_async_with_rollout_correction_that_rejects_tokens(assets: Path, tmp_path: Path):
    """Decoupled rollout correction: step 2 trains on responses of the policy before step 1, so some tokens fall out."""
    run = train(
        assets,
        tmp_path,
        *DECOUPLED,
        "algorithm.rollout_correction.rollout_rs=token_k1",
        "algorithm.rollout_correction.rollout_rs_threshold=0.95_1.05",
        mode="colocate_async",
    )
    assert_trained(run)
    masks = [call["given"]["response_mask"] for call in run.captured]
    assert any(_has_hole(row) for mask in masks for row in mask), "no token in the middle of a row was rejected"


def _has_hole(row: torch.Tensor) -> bool:
    valid = row.nonzero().flatten()
    return len(valid) > 0 and bool((row[valid[0] : valid[-1]] == 0).any())


def test_separate_async(assets: Path, tmp_path: Path):
    """Two mini-batches per weight sync: the estimator runs twice per step, its metrics are merged by verl."""
    run = train(
        assets,
        tmp_path,
        TWO_UPDATES,
        "trainer.v1.separate_async.parameter_sync_step=2",
        f"{LOSS_MODE}=ep_grpo",
        mode="separate_async",
    )
    assert_trained(run, calls_per_step=2)


ROLLOUT_APART = (
    "rollout.nnodes=1",
    "rollout.n_gpus_per_node=1",
    "actor_rollout_ref.hybrid_engine=False",
    "ray_kwargs.ray_init.num_cpus=32",
)


def test_one_step_off(assets: Path, tmp_path: Path):
    module = "verl.experimental.one_step_off_policy.main_ppo"
    search = "hydra.searchpath=[pkg://verl.trainer.config]"
    run = train(assets, tmp_path, *ROLLOUT_APART, search, *DECOUPLED, mode="separate_async", module=module)
    assert_trained(run)


def test_fully_async(assets: Path, tmp_path: Path):
    """Its own aggregator merges the metrics, and steps are logged by the version of the weights."""
    run = train(
        assets,
        tmp_path,
        *ROLLOUT_APART,
        *DECOUPLED,
        "rollout.n=4",
        "rollout.total_rollout_steps=12",
        "data.train_batch_size=0",
        "async_training.staleness_threshold=0",
        "async_training.trigger_parameter_sync_step=1",
        mode="separate_async",
        module="verl.experimental.fully_async_policy.fully_async_main",
    )
    assert len(run.captured) >= 2
    for call in run.captured:
        assert_equals_slow_reference(call)
    assert largest_log_ratio(run.captured[0]) == 0.0
    assert largest_log_ratio(run.captured[-1]) > 1e-4
    logged = [metrics for metrics in run.metrics.values() if "ep_grpo/gate/mean" in metrics]
    assert logged and all(set(METRICS) <= set(metrics) for metrics in logged)


def test_bypass_mode_is_refused_before_any_model_is_loaded(assets: Path, tmp_path: Path):
    """It is the default of one_step_off and fully_async."""
    bypass = ("actor_rollout_ref.rollout.calculate_log_probs=True", "algorithm.rollout_correction.bypass_mode=True")
    run = train(assets, tmp_path, *bypass, check=False)
    assert "Set algorithm.rollout_correction.bypass_mode=False" in run.log
    assert "Loading weights" not in run.log and not run.metrics


@pytest.mark.parametrize(
    ("mode", "overrides"),
    [
        ("sync", ()),
        ("colocate_async", ("trainer.v1.colocate_async.num_warmup_batches=0",)),
        (
            "separate_async",
            ("trainer.v1.separate_async.num_warmup_batches=0", "trainer.v1.separate_async.parameter_sync_step=1"),
        ),
        ("sync", ("trainer.use_v1=False",)),
    ],
    ids=["v1_sync", "v1_colocate_async", "v1_separate_async", "v0"],
)
def test_grpo_logs_the_same_with_the_hooks_as_without(assets: Path, tmp_path: Path, mode: str, overrides: tuple):
    """Two runs of the same code log the same numbers: rollouts are seeded, no mode generates ahead, and the rows, whose
    order within a batch is by chance, are one micro-batch."""
    one_micro_batch = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16"
    runs = {}
    for name, plugins in (("with", "auto"), ("without", "none")):
        folder = tmp_path / name
        folder.mkdir()
        env = {"VERL_USE_EXTERNAL_PLUGINS": plugins, "VERL_USE_EXTERNAL_MODULES": "only_cpu_backend"}
        runs[name] = train(assets, folder, one_micro_batch, *overrides, mode=mode, estimator="grpo", env=env)
    for name, other in (("with", "without"), ("without", "with")):
        for module in ("verl.trainer.ppo.ray_trainer", "verl.workers.engine_workers"):
            assert f"{module} {name} hooks" in runs[name].log
            assert f"{module} {other} hooks" not in runs[name].log
    hooked, plain = runs["with"].metrics, runs["without"].metrics
    assert len(hooked) == len(plain) == 2
    for step in hooked:
        assert set(hooked[step]) == set(plain[step])
        same = [name for name in hooked[step] if name.startswith(("actor/", "critic/", "response_length/"))]
        same = [name for name in same if "perf" not in name and "mfu" not in name]
        assert len(same) > 10
        for name in same:
            assert hooked[step][name] == pytest.approx(plain[step][name], rel=1e-4, abs=1e-7), f"step {step}: {name}"
