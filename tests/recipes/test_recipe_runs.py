# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Every recipe of the paper's experiments, run for two steps on the CPU with its own arguments and a tiny model.

What a CPU cannot do is replaced, see `python_on_a_cpu`: vLLM by transformers, and Megatron by FSDP.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from python_on_a_cpu import for_a_cpu, for_fsdp, key_of
from recipe_configs import NAMES, overrides
from recipe_runs import OUT_OF_REACH, PROMPTS, RecipeRun, arguments, knobs, run_recipe, save_assets

from epgrpo_verl.algorithm import METRICS

MAIN = "qwen2.5_3b_epgrpo"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def assets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_assets(tmp_path_factory.mktemp("assets"))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == MAIN else pytest.mark.nightly) for name in NAMES]
)
def test_two_steps_of_a_recipe(name: str, assets: Path, tmp_path: Path):
    gpus = 2 if "7b" in name else 1
    run = run_recipe(name, assets, tmp_path, gpus, check=name == MAIN)
    assert set(run.metrics) == {0, 1, 2}
    assert_arguments_are_the_recipes(run, name, assets, gpus)
    assert_responses_were_sampled_and_graded(run, rollouts=16 if "more_rollouts" in name else 8)
    assert_temperature(run, 1.2 if "high_temperature" in name else 1.0)
    assert_saved_and_validated(run)
    if "epgrpo" in name:
        assert_ep_grpo(run, without=name.partition("_no_")[2])
    else:
        assert_grpo(run)


def assert_arguments_are_the_recipes(run: RecipeRun, name: str, assets: Path, gpus: int) -> None:
    """verl got all that the script prints, but for what a CPU needs otherwise."""
    printed = overrides(name, *arguments(run.out), **knobs(assets, run.out, gpus))
    replaced = {key_of(item) for item in for_a_cpu(printed)}
    replaced.add("hydra.run.dir")  # Hydra writes its own settings down elsewhere
    kept = [item for item in for_fsdp(printed) if key_of(item) not in replaced]
    assert len(kept) > 35
    assert set(kept) <= set(run.overrides)


def assert_responses_were_sampled_and_graded(run: RecipeRun, rollouts: int) -> None:
    for step in (1, 2):
        groups = run.groups(step)
        assert [len(group) for group in groups] == [rollouts] * PROMPTS
        for row in (row for group in groups for row in group):
            box = re.search(r"\\boxed\{(.*?)\}", row["output"])
            assert row["score"] == float(box is not None and box[1] == row["gts"]), row
        scores = torch.tensor([[row["score"] for row in group] for group in groups])
        assert run.metrics[step]["critic/score/mean"] == pytest.approx(scores.mean().item())
        equal = (scores == scores[:, :1]).all(dim=1)
        assert 0 < equal.sum() < PROMPTS  # groups of both kinds: those that GRPO learns from, and the others
        assert all(equal[i] for i, group in enumerate(groups) if group[0]["gts"] == OUT_OF_REACH)


def assert_temperature(run: RecipeRun, temperature: float) -> None:
    """Both sides compute log-probs at the recipe's temperature, with weights that verl hands over in bfloat16."""
    assert run.config.actor_rollout_ref.rollout.temperature == temperature
    for step in (1, 2):
        assert run.metrics[step]["training/rollout_probs_diff_max"] < 0.01


def assert_saved_and_validated(run: RecipeRun) -> None:
    meta = json.loads((run.out / "checkpoints" / "global_step_2" / "actor" / "lora_train_meta.json").read_text())
    assert (meta["r"], meta["lora_alpha"]) == (32, 64)
    for step in (0, 2):
        assert "val-core/aime24/acc/mean@1" in run.metrics[step]
        lines = (run.out / "validation" / f"{step}.jsonl").read_text().splitlines()
        assert [json.loads(line)["gts"] for line in lines]


def assert_ep_grpo(run: RecipeRun, without: str) -> None:
    """EP-GRPO made the advantages, with the parts that the recipe leaves in; ``without`` is the one it leaves out."""
    first, second = (run.metrics[step] for step in (1, 2))
    log_ratio = {name for name in METRICS if name.startswith("ep_grpo/log_ratio/")}
    for metrics in (first, second):
        assert set(METRICS) - set(metrics) == (log_ratio if without == "progress" else set())
        assert metrics["ep_grpo/groups/count"] == PROMPTS
        gate = [metrics[f"ep_grpo/gate/{name}"] for name in ("min", "mean", "max")]
        assert gate == [1.0] * 3 if without == "gate" else gate[0] < gate[1] < gate[2]
        assert metrics["ep_grpo/zero_variance_groups/share"] > 0.0
    # The zero-variance rule only points the progress term, which is 0 in the first step.
    share = second["ep_grpo/zero_variance_tokens/share"]
    assert share == 0.0 if without in ("zero_variance", "progress") else share > 0.0
    if without == "progress":
        assert first["ep_grpo/progress/abs_mean"] == second["ep_grpo/progress/abs_mean"] == 0.0
    else:
        # The reference is the actor without its adapter, and a fresh adapter changes nothing.
        assert first["ep_grpo/log_ratio/abs_max"] == 0.0 < second["ep_grpo/log_ratio/abs_max"]
        assert first["ep_grpo/progress/abs_mean"] == 0.0 < second["ep_grpo/progress/abs_mean"]


def assert_grpo(run: RecipeRun) -> None:
    """The advantages are GRPO's, reckoned here from the scores of the responses."""
    for step in (1, 2):
        assert not [name for name in run.metrics[step] if "ep_grpo" in name]
        scores = torch.tensor([[row["score"] for row in group] for group in run.groups(step)])
        advantages = (scores - scores.mean(1, keepdim=True)) / (scores.std(1, keepdim=True) + 1e-6)
        assert run.metrics[step]["critic/advantages/max"] == pytest.approx(advantages.max().item(), rel=1e-4)
        assert run.metrics[step]["critic/advantages/min"] == pytest.approx(advantages.min().item(), rel=1e-4)
