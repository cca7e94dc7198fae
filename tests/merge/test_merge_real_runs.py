# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Two steps of verl's trainer on the CPU: the merged checkpoint of step 1 is the policy that step 2 began with.

The oracle is verl's actor: it computed the log-probs of step 2's responses with its sharded weights and its adapter.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from epgrpo_verl.doctor.report import Status, worst
from epgrpo_verl.merge.command import merge
from epgrpo_verl.quickstart.prepare import prepare
from epgrpo_verl.quickstart.task import DIFFICULTIES

sys.path += [str(Path(__file__).parents[1] / name) for name in ("plugin", "algorithm")]
from real_run import train  # noqa: E402

pytestmark = pytest.mark.slow
MODEL = "actor_rollout_ref.model"
LORA = (f"{MODEL}.lora_rank=8", f"{MODEL}.lora_alpha=24", f"{MODEL}.lora.merge=True")


@pytest.fixture(scope="module")
def assets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The quickstart's tiny model and data."""
    folder = tmp_path_factory.mktemp("assets")
    prepare(folder, DIFFICULTIES["easy"], num_train=64, num_test=8)
    return folder


@pytest.mark.parametrize(
    "overrides", [pytest.param(LORA, id="lora"), pytest.param((), id="full", marks=pytest.mark.nightly)]
)
def test_the_merged_checkpoint_is_the_policy_that_verl_went_on_with(assets: Path, tmp_path: Path, overrides):
    checkpoints = tmp_path / "checkpoints"
    saving = ("trainer.save_freq=1", f"trainer.default_local_dir={checkpoints}")
    captured = train(assets, tmp_path, *overrides, *saving).captured
    assert len(captured) == 2

    checks, about = merge(checkpoints / "global_step_1", tmp_path / "merged", str(assets / "model"))
    assert worst(checks) is Status.OK, checks
    assert about["step"] == 1
    assert ("adapter" in {check.name for check in checks}) == bool(overrides)

    step = captured[1]
    mask = step["given"]["response_mask"] != 0
    by_verl = step["given"]["old_log_probs"][mask]
    merged, base = (
        log_probs(AutoModelForCausalLM.from_pretrained(path), step)[mask]
        for path in (tmp_path / "merged", assets / "model")
    )
    torch.testing.assert_close(merged, by_verl, rtol=1e-3, atol=1e-4)
    assert (base - by_verl).abs().max() > 1e-2


def log_probs(model: PreTrainedModel, step: dict) -> torch.Tensor:
    """Log-probs of a captured step's responses, row by row without padding; shape (rows, response length)."""
    pad = model.config.pad_token_id
    tokens, mask = step["tokens"], step["given"]["response_mask"] != 0
    out = torch.zeros(mask.shape)
    for row, (prompt, response) in enumerate(zip(tokens["prompts"], tokens["responses"], strict=True)):
        prompt, response = prompt[prompt != pad], response[: int(mask[row].sum())]
        with torch.no_grad():
            logits = model.eval()(torch.cat([prompt, response]).unsqueeze(0)).logits[0, len(prompt) - 1 : -1]
        out[row, : len(response)] = logits.log_softmax(-1).gather(1, response.unsqueeze(1)).squeeze(1)
    return out
