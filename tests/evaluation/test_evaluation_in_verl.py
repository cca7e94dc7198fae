# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""A validation of verl's own trainer, read back: its numbers, and that its prompts are those of ``epgrpo evaluate``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import evaluation_graders
import pytest
from evaluation_assets import MAX_TOKENS, evaluate

from epgrpo_verl import cpu
from epgrpo_verl.evaluation import load_run, summarize
from epgrpo_verl.evaluation.compare import differences

N = 3


def overrides(model: Path, data: tuple[Path, Path], out: Path) -> list[str]:
    """Hydra overrides of a run that only validates, with several samples per problem."""
    rollout = "actor_rollout_ref.rollout"
    return [
        "algorithm.adv_estimator=grpo",
        f"data.train_files={data[0]}",
        f"data.val_files=[{data[0]},{data[1]}]",
        "data.train_batch_size=4",
        "data.max_prompt_length=24",
        f"data.max_response_length={MAX_TOKENS}",
        f"actor_rollout_ref.model.path={model}",
        "actor_rollout_ref.actor.ppo_mini_batch_size=4",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4",
        f"{rollout}.log_prob_micro_batch_size_per_gpu=4",
        f"{rollout}.max_model_len=64",
        f"{rollout}.val_kwargs.n={N}",
        f"{rollout}.val_kwargs.do_sample=True",
        f"{rollout}.val_kwargs.temperature=1.0",
        f"reward.custom_reward_function.path={evaluation_graders.__file__}",
        "reward.custom_reward_function.name=a_third_is_right",
        "trainer.val_only=True",
        "trainer.logger=[console]",
        "trainer.resume_mode=disable",
        f"trainer.validation_data_dir={out}",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("v1", [True, pytest.param(False, marks=pytest.mark.nightly)], ids=["v1", "v0"])
def test_a_validation_of_verl_is_read_and_compared(model, data, finished, tmp_path, v1):
    settings = cpu.merge_overrides(
        cpu.overrides("hf"), [*overrides(model, data, tmp_path / "validation"), f"trainer.use_v1={v1}"]
    )
    environment = {**os.environ, **cpu.environment("hf"), "RAY_ADDRESS": "local"}
    command = [sys.executable, "-m", "verl.trainer.main_ppo", *settings]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=540)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]

    dump = tmp_path / "validation" / "0.jsonl"
    rows = [json.loads(line) for line in dump.read_text(encoding="utf-8").split("\n")[:-1]]
    assert len(rows) == N * (6 + 4)
    counts = {"sums": 0, "more": 0}
    for row in rows:
        verdict = evaluation_graders.a_third_is_right("", row["output"], "")
        counts[row["graded_data_source"]] += verdict["acc"]
    run = load_run(dump)
    summary = summarize(run)
    for name, size in (("sums", 6), ("more", 4)):
        numbers = summary.sets[name]
        assert (numbers.problems, numbers.n) == (size, N)
        assert numbers.avg.value == pytest.approx(counts[name] / (size * N))
    assert 0 < summary.average.avg.value < 1
    assert summary.average.tokens is None and summary.average.truncated is None

    # Matched by rendered prompt: verl's rollout and the evaluation put the problems to the model in the same words.
    found = differences(run, load_run(finished))
    assert all(difference.avg is not None for difference in found.values())
    shown = evaluate("--dump", dump)
    assert shown.exit_code == 0 and f"{100 * summary.average.avg.value:.2f}" in shown.stdout
