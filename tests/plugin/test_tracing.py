# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""``trace_dir`` behind verl's own `compute_advantage`: what reaches the trace, and what goes wrong without harm."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import fresh_process
import numpy as np
import pytest
import torch
import verl  # noqa: F401  loads the plugin by its entry point
from omegaconf import OmegaConf
from verl.protocol import DataProto
from verl.trainer.ppo.ray_trainer import compute_advantage

from epgrpo_verl.plugin import EPGRPOPluginError, preflight, tracing, trainer_v0
from epgrpo_verl.quickstart.model import build_tokenizer
from epgrpo_verl.trace.reader import read_trace

PROMPTS = ["1+2=", "3+3+4="]
PAD = 0


@pytest.fixture(autouse=True)
def warn_again():
    for cached in (preflight.warn_once, tracing._tracer, tracing._texts):
        cached.cache_clear()


@pytest.fixture
def tokens(batch: dict) -> dict:
    """Prompts padded on the left, responses padded on the right, as in verl's DataProto."""
    tokenizer = build_tokenizer()
    prompts = [tokenizer.encode(PROMPTS[row % 2]) for row in range(9)]
    width, columns = max(map(len, prompts)), batch["response_mask"].shape[1]
    lengths = batch["response_mask"].sum(dim=1).tolist()
    responses = [tokenizer.encode(str(10**9 + row))[:length] for row, length in enumerate(lengths)]
    return {
        "prompts": torch.tensor([[PAD] * (width - len(ids)) + ids for ids in prompts]),
        "responses": torch.tensor([ids + [PAD] * (columns - len(ids)) for ids in responses]),
        "attention_mask": torch.cat(
            [
                torch.tensor([[0] * (width - len(ids)) + [1] * len(ids) for ids in prompts]),
                torch.arange(columns).unsqueeze(0) < torch.tensor(lengths).unsqueeze(1),
            ],
            dim=1,
        ).long(),
    }


def advantages(batch: dict, tokens: dict, step: int | None = 1, **section) -> torch.Tensor:
    """verl's `compute_advantage` as V0 calls it, with the hook's information in ``meta_info``."""
    config = OmegaConf.create({"adv_estimator": "ep_grpo", "norm_adv_by_std_in_grpo": True, "ep_grpo": section})
    tensors = {name: value for name, value in {**batch, **tokens}.items() if name != "uid"}
    feed = {"step": step, "max_entropy": None, "wants_slope": False, "tokenizer": tokens.get("path")}
    data = DataProto.from_dict({k: v for k, v in tensors.items() if k != "path"}, {"uid": batch["uid"]})
    data.meta_info[trainer_v0.FEED_INFO] = feed
    return compute_advantage(data, "ep_grpo", config=config).batch["advantages"]


def warnings(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_tokens_and_texts_of_verls_padded_batch_are_in_the_trace(batch, tokens, tmp_path):
    build_tokenizer().save_pretrained(tmp_path / "model")
    tokens["path"] = (str(tmp_path / "model"), False)
    result = advantages(batch, tokens, trace_dir=str(tmp_path / "trace"))
    (step,) = read_trace(tmp_path / "trace")
    assert [group["prompt"] for group in step.groups] == PROMPTS
    for group in step.groups:
        for response in group["responses"]:
            row, length = response["row"], len(response["ids"])
            assert "".join(response["tokens"]) == str(10**9 + row)[:length]
            traced = torch.tensor(response["advantage"])
            torch.testing.assert_close(traced, result[row, :length], rtol=1e-4, atol=1e-6)


def test_steps_and_groups_are_those_of_the_settings(batch, tokens, tmp_path):
    for step in range(1, 7):
        advantages(batch, tokens, step, trace_dir=str(tmp_path), trace_every=3, trace_groups=1)
    steps = read_trace(tmp_path)
    assert [step.step for step in steps] == [1, 3, 6]
    assert all(len(step.groups) == 1 for step in steps)


def test_without_a_tokenizer_the_trace_has_ids_and_one_warning_says_why(batch, tokens, tmp_path, caplog):
    tokens["path"] = (str(tmp_path / "gone"), False)
    for step in (1, 10):
        advantages(batch, tokens, step, trace_dir=str(tmp_path / "trace"))
    steps = read_trace(tmp_path / "trace")
    assert len(steps) == 2 and steps[0].groups[0]["responses"][0]["tokens"] is None
    assert steps[0].groups[0]["responses"][0]["ids"]
    (warning,) = [text for text in warnings(caplog) if "trace" in text]
    assert "ids without text" in warning and "gone" in warning


@pytest.mark.parametrize("why", ["a file is in the way", "the size is reached", "no tokens in the batch"])
def test_what_goes_wrong_is_said_once_and_changes_no_advantage(batch, tokens, tmp_path, caplog, why):
    without = advantages(batch, tokens)
    section = {"trace_dir": str(tmp_path / "trace"), "trace_every": 1}
    if why == "a file is in the way":
        (tmp_path / "trace").write_text("")
        words = "trace_dir="
    elif why == "the size is reached":
        section["trace_max_mb"] = 0.0001
        words = "trace_max_mb=0.0001"
    else:
        tokens = {}
        words = "no prompts, responses"
    tokens["path"] = None
    for step in (1, 2, 3):
        assert torch.equal(advantages(batch, tokens, step, **section), without)
    said = [warning for warning in warnings(caplog) if "no more token traces" in warning]
    assert len(said) == 1 and words in said[0]
    assert not list(tmp_path.glob("trace/*"))


def test_without_trace_dir_nothing_of_it_is_imported_and_no_token_is_read():
    code = """
import sys, torch
from omegaconf import OmegaConf
import verl
from verl.trainer.ppo import core_algos
from epgrpo_verl.plugin.feed import Feed, feeding

def read_tokens(rows):
    raise AssertionError("tokens were read")

tensor = torch.rand(4, 5)
feed = Feed({"entropy": tensor, "old_log_probs": -tensor, "ref_log_prob": -tensor}, read_tokens=read_tokens)
with feeding(feed):
    core_algos.get_adv_estimator_fn("ep_grpo")(
        token_level_rewards=tensor, response_mask=torch.ones(4, 5), index=list("aabb"),
        config=OmegaConf.create({"ep_grpo": {"guards": False}}),
    )
assert feed.result is not None
print([name for name in sys.modules if name.startswith(("epgrpo_verl.trace", "epgrpo_verl.plugin.tracing"))])
"""
    assert fresh_process.run(code).last_line == "[]"


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"trace_dir": 3}, "trace_dir must be the path"),
        ({"trace_dir": " "}, "trace_dir must be the path"),
        ({"trace_every": 0}, "trace_every must be at least 1"),
        ({"trace_groups": 1.5}, "trace_groups must be an integer"),
        ({"trace_max_mb": 0}, "trace_max_mb must be above 0"),
        ({"trace_max_mb": "10"}, "trace_max_mb must be a number"),
        ({"trace_dri": "x"}, "did you mean algorithm.ep_grpo.trace_dir"),
    ],
)
def test_a_wrong_setting_is_named(section, words):
    with pytest.raises(EPGRPOPluginError, match=words):
        preflight.settings({"ep_grpo": section})


def test_v0_says_where_the_tokenizer_is():
    model = {"path": "a/model", "tokenizer_path": None, "trust_remote_code": True}
    algorithm = {"adv_estimator": "ep_grpo"}
    config = OmegaConf.create({"algorithm": algorithm, "actor_rollout_ref": {"model": model, "actor": {}}})
    output = DataProto.from_dict({"old_log_probs": torch.ones(1, 1), "entropys": torch.ones(1, 1)})
    hook = trainer_v0.wrap_compute_old_log_prob(lambda self: (output, 0.0))
    result, _ = hook(SimpleNamespace(config=config, global_steps=4))
    assert result.meta_info[trainer_v0.FEED_INFO]["tokenizer"] == ("a/model", True)
    config.actor_rollout_ref.model.tokenizer_path = "a/tokenizer"
    assert preflight.tokenizer_source(config) == ("a/tokenizer", True)
    result.non_tensor_batch["uid"] = np.array(["a"], dtype=object)
    result.to_tensordict()  # on its way to the actor's workers
