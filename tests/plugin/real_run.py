# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Short runs of verl's own trainers on the CPU, with a tiny model: what they logged, what the estimator was given."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from slow_reference import slow_ep_grpo

import epgrpo_verl.quickstart.task as task
from epgrpo_verl import cpu

HERE = Path(__file__).parent
TIMEOUT = 540
PER_TOKEN = ("token_level_rewards", "response_mask", "entropy", "old_log_probs", "ref_log_prob")
PARTS = ("advantages", "outcome", "progress", "gate", "progress_slope", "anchor", "zero_variance")


@dataclass(frozen=True)
class RealRun:
    """One finished run.

    Attributes:
        captured: For each call of the estimator what it was given and what it returned, see `capture_batches`.
        metrics: What verl's file logger wrote, by step.
        log: Output of the run.
    """

    captured: list[dict[str, Any]]
    metrics: dict[int, dict[str, float]]
    log: str


def task_overrides(assets: Path, steps: int) -> list[str]:
    """Hydra overrides of a GRPO run on the quickstart's data: 4 prompts x 4 responses per step, with no KL option."""
    return [
        f"data.train_files={assets / 'train.parquet'}",
        f"data.val_files={assets / 'test.parquet'}",
        f"actor_rollout_ref.model.path={assets / 'model'}",
        f"reward.custom_reward_function.path={task.__file__}",
        "reward.custom_reward_function.name=compute_score",
        "data.train_batch_size=4",
        "data.max_prompt_length=16",
        "data.max_response_length=24",
        "data.shuffle=False",
        "actor_rollout_ref.rollout.n=4",
        "actor_rollout_ref.rollout.max_model_len=48",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8",
        "actor_rollout_ref.actor.ppo_mini_batch_size=4",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8",
        "actor_rollout_ref.actor.optim.lr=1e-3",
        "trainer.logger=[console,file]",
        f"trainer.total_training_steps={steps}",
        "trainer.val_before_train=False",
        "trainer.test_freq=-1",
        "trainer.save_freq=-1",
        "trainer.resume_mode=disable",
    ]


def train(
    assets: Path,
    folder: Path,
    *overrides: str,
    mode: str = "sync",
    steps: int = 2,
    module: str = "verl.trainer.main_ppo",
    estimator: str = "ep_grpo",
    check: bool = True,
    env: dict[str, str] | None = None,
    cluster: str | None = None,
) -> RealRun:
    """Run a trainer of verl to its end.

    Args:
        assets: Folder of the quickstart's model and data.
        folder: Empty folder of this run.
        *overrides: Hydra overrides, after all others.
        mode: ``trainer.v1.trainer_mode``.
        steps: Training steps.
        module: verl's entry script.
        estimator: ``algorithm.adv_estimator``.
        check: Whether the run has to go well.
        env: Environment variables to add.
        cluster: Address of a Ray cluster that was started beforehand; nothing is then captured, because that takes an
            environment variable.
    """
    (folder / "captured").mkdir()
    settings = cpu.merge_overrides(
        cpu.overrides("hf", 1, mode),
        [f"algorithm.adv_estimator={estimator}", *task_overrides(assets, steps), *overrides],
    )
    # An override that is given twice counts once, as the last one: Hydra refuses two +key=value.
    settings = list({setting.partition("=")[0]: setting for setting in settings}.values())
    environment = {**os.environ, **cpu.environment("hf"), "VERL_FILE_LOGGER_PATH": str(folder / "metrics.jsonl")}
    if cluster is None:
        environment |= {
            "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "VERL_USE_EXTERNAL_MODULES": "capture_batches",
            "EPGRPO_CAPTURE": str(folder / "captured"),
            "RAY_ADDRESS": "local",
        }
    else:
        settings = _for_a_cluster(settings, environment)
        environment["RAY_ADDRESS"] = cluster
    environment |= env or {}
    done = subprocess.run(
        [sys.executable, "-m", module, *settings],
        env=environment,
        cwd=folder,
        timeout=TIMEOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    log = done.stdout + done.stderr
    assert not check or done.returncode == 0, log[-6000:]
    lines = folder / "metrics.jsonl"
    logged = [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else []
    files = sorted((folder / "captured").glob("*.pt"), key=lambda path: path.stat().st_mtime)
    captured = [torch.load(path, weights_only=False) for path in files]
    return RealRun(captured, {line["step"]: line["data"] for line in logged}, log)


def _for_a_cluster(settings: list[str], environment: dict[str, str]) -> list[str]:
    """Leave out how Ray is started, and send the variables of the CPU backend along: the nodes do not have them."""
    kept = [setting for setting in settings if "ray_kwargs.ray_init" not in setting]
    names = ("VERL_PLATFORM", "VERL_FILE_LOGGER_PATH", "GLOO_SOCKET_IFNAME", "OMP_NUM_THREADS", "HF_HUB_OFFLINE")
    sent = [f"+ray_kwargs.ray_init.runtime_env.env_vars.{name}='{environment[name]}'" for name in names]
    return [*kept, "ray_kwargs.ray_init.num_cpus=null", *sent]


def assert_equals_slow_reference(step: dict[str, Any]) -> None:
    """Compare what the estimator returned in a real run with the slow reference on what it was given."""
    given, result = step["given"], step["result"]
    slow = slow_ep_grpo(*(given[name] for name in PER_TOKEN), given["index"], given["norm_adv_by_std"])
    mask = (given["response_mask"] != 0).numpy()
    for part in PARTS:
        ours, reference = getattr(result, part).double().numpy(), slow[part].astype(float)
        where = mask if ours.ndim == 2 else slice(None)
        np.testing.assert_allclose(ours[where], reference[where], rtol=2e-3, atol=2e-4, err_msg=part)
        if ours.ndim == 2:
            assert (ours[~mask] == 0).all(), part


def largest_log_ratio(step: dict[str, Any]) -> float:
    """Largest absolute log-ratio to the reference that the estimator saw, in nats."""
    return step["result"].log_ratio.abs().max().item()
