# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that verl saved, merged: the result is the model that was trained, by its tensors and its logits.

The oracle for LoRA is peft: the model that was saved, and its own ``merge_and_unload``.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import saved
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from typer.testing import CliRunner

from epgrpo_verl.doctor.report import Status, worst
from epgrpo_verl.merge.command import REPORT, app, merge

IDS = [5, 9, 200, 31, 77, 258, 1, 12]


def load(folder: Path) -> torch.nn.Module:
    return AutoModelForCausalLM.from_pretrained(folder, dtype="auto")


def assert_same_tensors(merged: torch.nn.Module, trained: torch.nn.Module, **tolerance: float) -> None:
    expected = trained.state_dict()
    actual = merged.state_dict()
    assert set(actual) == set(expected)
    for name, tensor in expected.items():
        torch.testing.assert_close(actual[name], tensor, msg=lambda text, n=name: f"{n}: {text}", **tolerance)


@pytest.mark.parametrize(("world_size", "replicas"), [(1, 1), (3, 1), (4, 2)], ids=["1", "3 uneven", "2 x 2 hybrid"])
def test_lora_merged_is_the_model_that_was_trained(lora, base, tmp_path, world_size, replicas):
    model, actor = lora
    if world_size > 1:
        actor = saved.save_checkpoint(model, base, tmp_path / "run", world_size, replicas)
    checks, about = merge(actor, tmp_path / "merged", str(base))
    assert worst(checks) is Status.OK, checks
    assert about == {"step": 7, "base": str(base), "dtype": "float32", "shards": world_size}
    merged = load(tmp_path / "merged")
    fused = copy.deepcopy(model).merge_and_unload()
    assert_same_tensors(merged, fused, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(saved.logits(merged, IDS), saved.logits(model, IDS), rtol=1e-4, atol=1e-5)
    assert (saved.logits(merged, IDS) - saved.logits(load(base), IDS)).abs().max() > 0.1


def test_lora_needs_no_base_where_the_checkpoint_holds_it(lora, base, tmp_path):
    model, actor = lora
    checks, _ = merge(actor, tmp_path / "merged")
    assert worst(checks) is Status.OK, checks
    fused = copy.deepcopy(model).merge_and_unload()
    assert_same_tensors(load(tmp_path / "merged"), fused, rtol=1e-6, atol=1e-7)


def test_an_adapter_saved_alone_is_fused_into_the_base(lora, base, tmp_path):
    model, _ = lora
    actor = saved.save_checkpoint(model, base, tmp_path / "run", world_size=2, lora_only=True)
    done = run(actor, tmp_path / "merged")
    assert done.exit_code == 1
    assert "--base MODEL" in done.output
    checks, _ = merge(actor, tmp_path / "merged", str(base))
    assert worst(checks) is Status.OK, checks
    assert_same_tensors(load(tmp_path / "merged"), copy.deepcopy(model).merge_and_unload(), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("world_size", [1, 3])
def test_full_fine_tuning_merged_is_the_model_that_was_trained(full, base, tmp_path, world_size):
    model, actor = full
    if world_size > 1:
        actor = saved.save_checkpoint(model, base, tmp_path / "run", world_size)
    checks, _ = merge(actor, tmp_path / "merged", str(base))
    assert worst(checks) is Status.OK, checks
    assert_same_tensors(load(tmp_path / "merged"), model, rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["lora", "full"])
def test_bfloat16_is_the_trained_model_rounded_once(kind, base, tmp_path, request):
    model, actor = request.getfixturevalue(kind)
    checks, about = merge(actor, tmp_path / "merged", str(base), dtype="bfloat16")
    assert worst(checks) is Status.OK, checks
    assert about["dtype"] == "bfloat16"
    merged = load(tmp_path / "merged")
    assert json.loads((tmp_path / "merged" / "config.json").read_text())["dtype"] == "bfloat16"
    trained = copy.deepcopy(model).merge_and_unload() if kind == "lora" else model
    for name, tensor in trained.state_dict().items():
        written = merged.state_dict()[name]
        assert written.dtype == torch.bfloat16
        # Where peft's float32 sum is at the middle between two bfloat16 numbers, ours may fall to the other side.
        assert (written != tensor.bfloat16()).float().mean() < 0.01, name
        torch.testing.assert_close(written.float(), tensor, rtol=2**-8, atol=1e-6)


def test_the_base_decides_the_dtype(lora, tmp_path):
    _, actor = lora
    half = saved.save_base(tmp_path / "half", dtype=torch.bfloat16)
    checks, about = merge(actor, tmp_path / "merged", str(half))
    assert about["dtype"] == "bfloat16"
    # The checkpoint's own frozen weights are those of the float32 base.
    assert [check.name for check in checks if check.status is Status.FAILED] == ["rest equal to the base"]


@pytest.mark.parametrize("lora_on", [False, True], ids=["full", "lora"])
def test_tied_embeddings_stay_tied(tmp_path, lora_on):
    tied = saved.save_base(tmp_path / "tied", tie=True)
    model = saved.train(tied, lora=lora_on)
    actor = saved.save_checkpoint(model, tied, tmp_path / "run", world_size=2)
    checks, _ = merge(actor, tmp_path / "merged", str(tied))
    assert worst(checks) is Status.OK, checks
    merged = load(tmp_path / "merged")
    assert merged.lm_head.weight is merged.model.embed_tokens.weight
    torch.testing.assert_close(saved.logits(merged, IDS), saved.logits(model, IDS), rtol=1e-4, atol=1e-5)


def test_an_adapter_on_a_tied_head_fails(tmp_path):
    """Fused, head and embedding are two tensors; the tied model has room for one."""
    tied = saved.save_base(tmp_path / "tied", tie=True)
    model = saved.train(tied, lora=True, targets=["lm_head", "q_proj"])
    actor = saved.save_checkpoint(model, tied, tmp_path / "run")
    done = run(actor, tmp_path / "merged")
    assert done.exit_code == 1, done.output
    assert "tie_word_embeddings" in flat(done.output)
    assert not (tmp_path / "merged").exists()


def test_tokenizer_template_and_generation_config_are_those_of_the_training(lora, base, tmp_path):
    """Both ends of a response survive; a template of the run's own does too."""
    _, actor = lora
    merge(actor, tmp_path / "merged")
    ours, trained = (AutoTokenizer.from_pretrained(folder) for folder in (tmp_path / "merged", base))
    chat = [{"role": "user", "content": "2+3"}]
    assert ours.get_vocab() == trained.get_vocab()
    assert ours.apply_chat_template(chat, tokenize=False) == trained.apply_chat_template(chat, tokenize=False)
    assert GenerationConfig.from_pretrained(tmp_path / "merged").eos_token_id == [2, 0]


def test_the_report_is_printed_and_kept(lora, tmp_path):
    _, actor = lora
    done = run(actor.parent.parent, tmp_path / "merged")  # the folder of all steps: the last one is taken
    assert done.exit_code == 0, done.output
    assert "rank 4, alpha 12 (lora_train_meta.json), scaling 3, on 14 weights" in flat(done.output)
    report = json.loads((tmp_path / "merged" / REPORT).read_text())
    assert report["status"] == "ok"
    assert report["versions"]["step"] == 7
    assert {"every tensor", "adapter", "equal to base + scaling * B A", "changed", "loads"} <= {
        check["name"] for check in report["checks"]
    }


def run(actor: Path, out: Path, *arguments: str):
    return CliRunner().invoke(app, [str(actor), "--out", str(out), *arguments])


def flat(text: str) -> str:
    """The text of the table without its lines and columns."""
    rows = [row.split("│")[-1] for row in text.splitlines()]
    return " ".join(" ".join(rows).split())
