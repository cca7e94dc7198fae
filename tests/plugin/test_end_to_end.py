# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""verl's own trainer with EP-GRPO on a real (tiny) model, its numbers checked against the slow reference.

The run is `python -m epgrpo_verl.cpu train`, that is `verl.trainer.main_ppo` with Ray, FSDP2, a rollout engine and a
reference model. The config has no KL option: all that says EP-GRPO is ``algorithm.adv_estimator=ep_grpo``.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from slow_reference import slow_ep_grpo

pytestmark = pytest.mark.slow
STEPS = 3
PARTS = ("advantages", "outcome", "progress", "gate", "progress_coordinate", "bucket", "anchor", "zero_variance")


@pytest.fixture(scope="module", params=["hf", "vllm"])
def run(request, tmp_path_factory) -> dict:
    """One run of a few steps with each rollout: captured batches, logged metrics, model folder."""
    if request.param == "vllm" and importlib.util.find_spec("vllm") is None:
        pytest.skip("vLLM's CPU build is not installed (requirements/cpu-vllm.txt)")
    folder = tmp_path_factory.mktemp(request.param)
    subprocess.run(
        [sys.executable, "-m", "epgrpo_verl.quickstart", "prepare", "--out", str(folder / "data")],
        check=True,
        timeout=300,
    )
    (folder / "captured").mkdir()
    env = {
        **os.environ,
        "PYTHONPATH": os.path.dirname(__file__),
        "VERL_USE_EXTERNAL_MODULES": "capture_batches",
        "EPGRPO_CAPTURE": str(folder / "captured"),
        "VERL_FILE_LOGGER_PATH": str(folder / "metrics.jsonl"),
    }
    command = [sys.executable, "-m", "epgrpo_verl.cpu", "train", "--rollout", request.param]
    done = subprocess.run(
        [*command, *overrides(folder)], env=env, cwd=folder, timeout=540, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {
        "steps": [torch.load(folder / "captured" / f"step_{n}.pt", weights_only=False) for n in range(1, STEPS + 1)],
        "metrics": {line["step"]: line["data"] for line in lines if "ep_grpo/gate/mean" in line["data"]},
        "model": next(path.parent for path in folder.rglob("model.safetensors")),
        "log": done.stdout + done.stderr,
    }


def overrides(folder: Path) -> list[str]:
    """A plain GRPO config for the quickstart's data, with the estimator's name changed."""
    data = folder / "data"
    return [
        "algorithm.adv_estimator=ep_grpo",
        f"data.train_files={data / 'train.parquet'}",
        f"data.val_files={data / 'test.parquet'}",
        f"actor_rollout_ref.model.path={data / 'model'}",
        f"reward.custom_reward_function.path={_module_file('epgrpo_verl.quickstart.task')}",
        "reward.custom_reward_function.name=compute_score",
        "data.train_batch_size=8",
        "data.max_prompt_length=32",
        "data.max_response_length=48",
        "actor_rollout_ref.rollout.n=4",
        "actor_rollout_ref.rollout.max_model_len=96",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=32",
        "actor_rollout_ref.actor.ppo_mini_batch_size=8",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16",
        "actor_rollout_ref.actor.optim.lr=1e-3",
        "trainer.logger=[console,file]",
        f"trainer.total_training_steps={STEPS}",
        "trainer.val_before_train=False",
        "trainer.test_freq=-1",
        "trainer.save_freq=-1",
    ]


def _module_file(name: str) -> str:
    return importlib.util.find_spec(name).origin


def test_the_batch_verl_produced_gives_what_the_slow_reference_gives(run):
    names = ("token_level_rewards", "response_mask", "entropy", "old_log_probs", "ref_log_prob", "index")
    for step in run["steps"]:
        given, result = step["given"], step["result"]
        slow = slow_ep_grpo(*(given[name] for name in names), given["norm_adv_by_std"])
        mask = given["response_mask"] != 0
        for part in PARTS:
            ours, reference = getattr(result, part), torch.as_tensor(slow[part])
            if part == "bucket":
                ours, reference = ours[mask], reference[mask]
            torch.testing.assert_close(
                ours.double(), reference.double(), rtol=2e-4, atol=2e-5, msg=lambda m, p=part: p + m
            )


def test_entropy_and_log_probs_belong_to_their_rows(run):
    """An independent forward pass of the initial model over step 1's own tokens, row by row."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(run["model"], dtype=torch.float32).eval()
    pad = model.config.pad_token_id
    step = run["steps"][0]
    given, tokens = step["given"], step["tokens"]
    checked = 0
    for row in range(len(tokens["responses"])):
        length = int(given["response_mask"][row].sum())
        if length == 0:
            continue
        prompt = tokens["prompts"][row]
        prompt = prompt[prompt != pad]
        response = tokens["responses"][row][:length]
        with torch.no_grad():
            logits = model(torch.cat([prompt, response]).unsqueeze(0)).logits[0, len(prompt) - 1 : -1]
        logp = logits.log_softmax(-1)
        entropy = -(logp.exp() * logp).sum(-1)
        chosen = logp.gather(1, response.unsqueeze(1)).squeeze(1)
        torch.testing.assert_close(given["entropy"][row, :length], entropy, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(given["old_log_probs"][row, :length], chosen, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(given["ref_log_prob"][row, :length], chosen, rtol=1e-3, atol=1e-4)
        checked += 1
    assert checked == 32


def test_the_log_ratio_is_zero_at_first_and_moves_with_the_policy(run):
    first, *later = [step["result"].log_ratio.abs().max().item() for step in run["steps"]]
    assert first == 0.0
    assert all(value > 1e-4 for value in later)


def test_verls_logger_has_the_metrics_of_each_step(run):
    from epgrpo_verl.algorithm import METRICS

    for number, step in enumerate(run["steps"], start=1):
        logged, result = run["metrics"][number], step["result"]
        assert set(METRICS) <= set(logged)
        valid = result.valid_row
        groups = {int(g): bool(z) for g, z in zip(result.group[valid], result.zero_variance[valid], strict=True)}
        share = sum(groups.values()) / len(groups)
        assert logged["ep_grpo/zero_variance_groups/share"] == pytest.approx(share)
        gate = result.gate[step["given"]["response_mask"] != 0]
        assert logged["ep_grpo/gate/mean"] == pytest.approx(gate.mean().item(), abs=1e-5)


def test_the_actor_was_trained_with_these_advantages(run):
    """verl's own metrics over the advantages that it wrote to its data plane."""
    for number, step in enumerate(run["steps"], start=1):
        advantages = step["result"].advantages[step["given"]["response_mask"] != 0]
        logged = run["metrics"][number]
        assert logged["critic/advantages/max"] == pytest.approx(advantages.max().item(), abs=1e-5)
        assert logged["critic/advantages/min"] == pytest.approx(advantages.min().item(), abs=1e-5)
        assert logged["critic/advantages/mean"] == pytest.approx(advantages.mean().item(), abs=1e-5)
