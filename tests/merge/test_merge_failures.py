# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that cannot be merged or whose proof fails: a clear message, exit code 1, and no folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import saved
import torch
from test_merge import flat, load, run

from epgrpo_verl.doctor.report import Status
from epgrpo_verl.merge import command
from epgrpo_verl.merge.checkpoint import Checkpoint
from epgrpo_verl.merge.command import merge
from epgrpo_verl.merge.compare import compare
from epgrpo_verl.merge.errors import MergeError
from epgrpo_verl.merge.lora import lay_out
from epgrpo_verl.merge.trained import read_trained


@pytest.fixture
def refused(tmp_path):
    """Merges, expects a failure that says something, and that nothing is left."""

    def check(actor: Path, *said: str, arguments: tuple[str, ...] = ()) -> None:
        before = sorted(tmp_path.iterdir())
        done = run(actor, tmp_path / "merged", *arguments)
        assert done.exit_code == 1, done.output
        text = flat(done.output)
        for part in said:
            assert part in text, text
        assert sorted(tmp_path.iterdir()) == before

    return check


# What verl's own merger writes for a LoRA run is the base, to the bit (verl-project/verl#7285, #4553).


def test_an_adapter_that_was_never_trained(lora, copy_of, refused):
    actor = copy_of(lora[1], lambda name, tensor: tensor.zero_() if "lora_B" in name else None)
    refused(actor, "B is 0 in all of them", "all 27 tensors are those of the base", "nothing was written")


def test_one_untrained_factor_is_a_warning(lora, copy_of, tmp_path):
    first = next(name for name in Checkpoint(lora[1]) if "lora_B" in name)
    actor = copy_of(lora[1], lambda name, tensor: tensor.zero_() if name == first else None)
    checks, _ = merge(actor, tmp_path / "merged")
    assert [(c.name, c.status) for c in checks if c.status is not Status.OK] == [("adapter", Status.WARNING)]


def test_weights_that_did_not_change(full, base, copy_of, refused):
    start = load(base).state_dict()
    actor = copy_of(full[1], lambda name, tensor: tensor.copy_(start[name]))
    refused(actor, "nothing was trained", arguments=("--base", str(base)))


def test_a_change_that_the_dtype_cannot_hold(base, copy_of, full, refused, tmp_path):
    start = load(base).bfloat16().float().state_dict()
    whole = saved.save_base(tmp_path / "rounded", dtype=torch.bfloat16)
    actor = copy_of(full[1], lambda name, tensor: tensor.copy_(start[name] * (1 + 1e-5)))
    arguments = ("--base", str(whole))
    refused(actor, "rounded away", "--dtype float32", arguments=arguments)
    checks, _ = merge(actor, tmp_path / "merged", str(whole), dtype="float32")
    assert all(check.status is Status.OK for check in checks)


# The scaling. verl's merger falls back to lora_alpha 0 with a warning.


def test_no_file_says_the_alpha(lora, copy_of, refused, tmp_path):
    actor = copy_of(lora[1])
    (actor / "lora_train_meta.json").unlink()
    refused(actor, "neither lora_train_meta.json nor lora_adapter/adapter_config.json", "--lora-alpha")
    checks, _ = merge(actor, tmp_path / "merged", lora_alpha=saved.ALPHA)
    assert all(check.status is Status.OK for check in checks)
    merge(lora[1], tmp_path / "known")
    assert_equal_folders(tmp_path / "merged", tmp_path / "known")


def test_the_folder_of_older_versions_of_verl_says_it(lora, copy_of, tmp_path):
    actor = copy_of(lora[1])
    (actor / "lora_train_meta.json").unlink()
    lora[0].save_pretrained(actor / "lora_adapter")
    checks, _ = merge(actor, tmp_path / "merged")
    assert any("alpha 12 (lora_adapter/adapter_config.json)" in check.message for check in checks)
    merge(lora[1], tmp_path / "known")
    assert_equal_folders(tmp_path / "merged", tmp_path / "known")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"r": 4, "lora_alpha": 0}, "lora_alpha=0, which would fuse nothing"),
        ({"r": 4}, "lora_alpha=None"),
        ({"r": 8, "lora_alpha": 12}, "says r=8, the factors have rank 4"),
        ({"r": 4, "lora_alpha": 12, "use_dora": True}, "sets use_dora"),
        ([4, 12], "does not hold settings"),
    ],
)
def test_settings_that_contradict_the_tensors(lora, copy_of, refused, settings, said):
    actor = copy_of(lora[1])
    (actor / "lora_train_meta.json").write_text(json.dumps(settings))
    refused(actor, said)


def test_two_files_that_contradict_each_other(lora, copy_of, refused):
    actor = copy_of(lora[1])
    lora[0].save_pretrained(actor / "lora_adapter")
    (actor / "lora_train_meta.json").write_text(json.dumps({"r": 4, "lora_alpha": 32}))
    refused(actor, "two files name two alphas", "32", "12", "--lora-alpha")


def test_an_alpha_that_is_none(lora, full, base, copy_of, refused):
    refused(lora[1], "above 0", arguments=("--lora-alpha", "-1"))
    refused(full[1], "holds no LoRA adapter", arguments=("--lora-alpha", "12", "--base", str(base)))


# Adapters that the equation is not about.


@pytest.mark.parametrize("extra", [{"use_dora": True}, {"target_modules": ["embed_tokens"]}], ids=["dora", "embedding"])
def test_other_adapters_are_refused(base, extra):
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(**{"r": 4, "target_modules": ["q_proj"], **extra})
    with pytest.raises(MergeError, match="not of a LoRA on a linear map"):
        lay_out(get_peft_model(load(base), config).state_dict())


def test_half_a_pair_and_two_adapters_are_refused():
    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_{}.{}.weight"
    with pytest.raises(MergeError, match="has no partner"):
        lay_out([name.format("A", "default")])
    with pytest.raises(MergeError, match="2 adapters"):
        lay_out([name.format(factor, adapter) for factor in "AB" for adapter in ("default", "other")])


# The base.


def test_full_fine_tuning_needs_the_base(full, refused, tmp_path):
    refused(full[1], "Name the model that the training started from: --base MODEL")
    refused(full[1], "cannot be loaded", arguments=("--base", str(tmp_path / "nowhere")))


def test_another_base_than_the_trained_one(lora, base, refused, tmp_path):
    other = load(base)
    torch.nn.init.normal_(other.model.layers[0].mlp.up_proj.weight)
    torch.nn.init.normal_(other.model.embed_tokens.weight)
    other.save_pretrained(tmp_path / "other")
    refused(
        lora[1],
        "model.embed_tokens.weight",
        "is it the model that was trained?",
        arguments=("--base", str(tmp_path / "other")),
    )


# The files.


def test_a_rank_is_missing_or_cut_off(full, base, refused, tmp_path):
    actor = saved.save_checkpoint(full[0], base, tmp_path / "run", world_size=2)
    path = actor / "model_world_size_2_rank_1.pt"
    path.write_bytes(path.read_bytes()[:1000])
    refused(actor, "rank_1.pt cannot be read", arguments=("--base", str(base)))
    path.unlink()
    refused(actor, "rank 1 is missing", arguments=("--base", str(base)))


def test_no_checkpoint_of_fsdp(refused, tmp_path):
    refused(tmp_path / "nowhere", "is no folder")
    (tmp_path / "global_step_1" / "actor").mkdir(parents=True)
    refused(tmp_path / "global_step_1", "holds no model_world_size_N_rank_K.pt")
    (tmp_path / "global_step_1" / "actor" / "model" / "dist_ckpt").mkdir(parents=True)
    refused(tmp_path / "global_step_1", "Megatron", "--backend megatron")


def test_the_configuration_is_missing(lora, copy_of, refused):
    actor = copy_of(lora[1])
    shutil.rmtree(actor / "huggingface")
    refused(actor, "huggingface/config.json is missing")


def test_a_lost_chat_template(lora, copy_of, refused):
    actor = copy_of(lora[1])
    (actor / "huggingface" / "chat_template.jinja").unlink()
    refused(actor, "there is none, neither in the checkpoint nor in the folder")


def test_a_lost_generation_config_comes_from_the_base(lora, base, copy_of, tmp_path):
    actor = copy_of(lora[1])
    (actor / "huggingface" / "generation_config.json").unlink()
    checks, _ = merge(actor, tmp_path / "merged", str(base))
    assert any("as in the base, since the checkpoint has none; ends at [2, 0]" in check.message for check in checks)
    checks, _ = merge(actor, tmp_path / "other")
    assert [check.name for check in checks if check.status is Status.WARNING] == ["generation config"]


def test_weights_that_are_no_numbers(full, base, copy_of, refused):
    actor = copy_of(full[1], lambda name, tensor: tensor[0].fill_(float("nan")) if "k_proj.weight" in name else None)
    refused(actor, "NaN or infinity in model.layers.0.self_attn.k_proj.weight", arguments=("--base", str(base)))


def test_weights_too_large_for_the_dtype(full, base, copy_of, refused):
    actor = copy_of(full[1], lambda name, tensor: tensor[0].fill_(1e6) if "k_proj.weight" in name else None)
    refused(actor, "NaN or infinity", arguments=("--base", str(base), "--dtype", "float16"))


# The target.


def test_an_existing_folder_is_kept_unless_it_is_to_be_replaced(lora, full, base, tmp_path, refused):
    (tmp_path / "merged").mkdir()
    (tmp_path / "merged" / "mine.txt").write_text("mine")
    refused(lora[1], "exists", "--overwrite")
    refused(full[1], "--base MODEL", arguments=("--overwrite",))
    assert (tmp_path / "merged" / "mine.txt").read_text() == "mine"
    assert run(lora[1], tmp_path / "merged", "--overwrite").exit_code == 0
    assert not (tmp_path / "merged" / "mine.txt").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["merged"]
    load(tmp_path / "merged")


def test_an_interrupt_leaves_nothing(lora, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("epgrpo_verl.merge.write.add_generation_config", interrupted)
    with pytest.raises(KeyboardInterrupt):
        command.merge(lora[1], tmp_path / "merged")
    assert list(tmp_path.iterdir()) == []


# The proof itself: what it must notice in a folder.


@pytest.mark.parametrize("block", [2**24, 100], ids=["whole", "in blocks"])
def test_one_wrong_number_is_noticed(lora, monkeypatch, block):
    monkeypatch.setattr("epgrpo_verl.merge.compare.BLOCK", block)
    trained = read_trained(lora[1], None)
    right = {name: trained.after(name, torch.float32) for name in trained.names}
    assert not compare(trained, right, {}).deviating
    for name in ("model.layers.1.mlp.down_proj.weight", "model.norm.weight"):
        wrong = {key: tensor.clone() for key, tensor in right.items()}
        wrong[name].view(-1)[-1] += 1e-5
        found = compare(trained, wrong, {})
        assert found.deviating == [name]
        assert found.deviation == pytest.approx(1e-5, rel=0.1)


def test_base_weights_in_place_of_the_fused_ones_are_noticed(lora):
    """As verl's own merger would write them."""
    trained = read_trained(lora[1], None)
    found = compare(trained, {name: trained.stored(name) for name in trained.names}, {})
    assert set(found.deviating) == set(trained.layout.factors)
    assert found.changed == []


def test_twice_rounded_weights_are_noticed(lora):
    """Factors rounded to bfloat16 before they are multiplied, as if they had been read by verl's merger."""
    trained = read_trained(lora[1], None)
    wrong = {name: trained.after(name, torch.float32).bfloat16() for name in trained.names}
    assert not compare(trained, wrong, {}).deviating
    for name in trained.layout.factors:
        a, b = (factor.bfloat16().float() for factor in trained.factors(name))
        wrong[name] = (trained.stored(name).bfloat16() + 3 * (b @ a).bfloat16()).bfloat16()
    assert set(compare(trained, wrong, {}).deviating) == set(trained.layout.factors)


def test_lost_and_surplus_tensors_are_noticed(lora):
    trained = read_trained(lora[1], None)
    tensors = {name: trained.after(name, torch.float32) for name in trained.names}
    norm = tensors.pop("model.norm.weight")
    tensors["model.norm.bias"] = norm
    tensors["lm_head.weight"] = tensors["lm_head.weight"][:5]
    found = compare(trained, tensors, {})
    assert (found.missing, found.surplus, found.reshaped) == (
        ["model.norm.weight"],
        ["model.norm.bias"],
        ["lm_head.weight"],
    )


def assert_equal_folders(one: Path, other: Path) -> None:
    for name, tensor in load(one).state_dict().items():
        assert torch.equal(tensor, load(other).state_dict()[name]), name
