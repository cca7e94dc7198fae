# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The dry run and its memory plan, the latter against real models counted by torch and PEFT."""

from __future__ import annotations

import json

import pytest
from memory_plan import KNOWN_SHAPES, ModelShape, memory_plan, model_shape, render
from recipe_configs import composed, overrides

TINY = {
    "num_hidden_layers": 3,
    "hidden_size": 32,
    "intermediate_size": 88,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 500,
}


@pytest.mark.parametrize("tied", [True, False])
def test_parameters_are_counted_as_torch_and_peft_count_them(tied):
    from peft import LoraConfig, get_peft_model
    from transformers import Qwen2Config, Qwen2ForCausalLM

    shape = ModelShape(**TINY, tie_word_embeddings=tied)
    model = Qwen2ForCausalLM(Qwen2Config(**TINY, tie_word_embeddings=tied))
    weights = sum(p.numel() for n, p in model.named_parameters() if "norm" not in n and "bias" not in n)
    assert shape.parameters == weights
    adapted = get_peft_model(model, LoraConfig(r=8, target_modules="all-linear"))
    assert shape.lora_parameters(8) == adapted.get_nb_trainable_parameters()[0]


@pytest.mark.parametrize(("name", "billions"), [("Qwen/Qwen2.5-3B", 3.09), ("Qwen/Qwen2.5-7B", 7.62)])
def test_known_models_have_the_published_number_of_parameters(name, billions):
    assert KNOWN_SHAPES[name].parameters / 1e9 == pytest.approx(billions, rel=0.005)


def test_a_local_model_is_read_from_its_config(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(TINY | {"tie_word_embeddings": True}))
    assert model_shape(str(tmp_path)) == ModelShape(**TINY, tie_word_embeddings=True)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="lacks num_hidden_layers"):
        model_shape(str(tmp_path))
    with pytest.raises(ValueError, match=r"model\.path=some/model"):
        model_shape("some/model")


def plan(*arguments, gpu_gb=80.0, name="qwen2.5_3b_epgrpo"):
    config = composed(name, *arguments)
    return memory_plan(config, model_shape(config.actor_rollout_ref.model.path), gpu_gb, reference=True)


def test_the_main_recipes_fit_80_gb():
    for name in ("qwen2.5_3b_epgrpo", "qwen2.5_7b_epgrpo", "qwen2.5_7b_epgrpo_megatron"):
        assert 40 < plan(name=name).peak < 75, name


def test_what_the_plan_follows():
    base = plan()
    assert base.resident["actor weights"] == pytest.approx(12.34, abs=0.01)  # 3.085e9 parameters of 4 bytes
    # Two buffers of 16,384 x 151,936 logits of 2 bytes.
    assert base.update["logits and their gradient (16384 tokens)"] == pytest.approx(9.957, abs=0.001)
    # 64 responses of 4,096 tokens; 2 x 36 layers x 256 x 2 bytes per token.
    assert "9.7 GB of KV cache" in base.notes[0]
    assert plan("trainer.n_gpus_per_node=4").resident["actor weights"] == pytest.approx(12.34 / 4, abs=0.01)
    offloaded = plan("actor_rollout_ref.actor.fsdp_config.param_offload=True")
    assert "actor weights" not in offloaded.resident
    assert offloaded.peak < base.peak
    no_lora = plan("actor_rollout_ref.model.lora_rank=0")
    assert no_lora.update["reference weights"] == pytest.approx(12.34, abs=0.01)
    assert no_lora.resident["gradients and optimizer"] == pytest.approx(3 * 12.34, abs=0.01)


def test_without_chunking_the_entropy_needs_more_than_the_gradient_of_the_logits():
    off = plan("actor_rollout_ref.actor.entropy_from_logits_with_chunking=False")
    name = "logits and their gradient (16384 tokens)"
    assert off.update[name] > plan().update[name]


def test_too_much_says_what_to_change():
    text = render(plan(gpu_gb=24.0), 24.0)
    assert "TOO MUCH: lower PPO_MAX_TOKEN_LEN_PER_GPU" in text
    assert "TOO MUCH" not in render(plan(), 80.0)
    assert "no room for a KV cache" in render(plan("actor_rollout_ref.rollout.gpu_memory_utilization=0.05"), 80.0)


def test_the_dry_run_prints_config_and_plan(capsys):
    from dry_run import main

    assert main(["--gpu-memory-gb", "80", "--", *overrides("qwen2.5_3b_epgrpo")]) == 0
    out = capsys.readouterr().out
    assert "adv_estimator: ep_grpo" in out
    assert "Reference policy needed: True" in out
    assert "peak " in out


def test_the_dry_run_refuses_what_verl_refuses(capsys):
    from dry_run import main

    assert main(["--", *overrides("qwen2.5_3b_epgrpo", "algorithm.rollout_correction.bypass_mode=True")]) == 1
    assert "bypass_mode=False" in capsys.readouterr().err
    assert main(["--", *overrides("qwen2.5_3b_epgrpo", "actor_rollout_ref.actor.loss_agg_mode=mean")]) == 1
    assert "loss_agg_mode" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("knobs", "named"),
    [
        (
            {"ADV_ESTIMATOR": "epgrpo", "TRAIN_BATCH_SIZE": "0", "LR": "fast"},
            ("set ADV_ESTIMATOR=ep_grpo", "set TRAIN_BATCH_SIZE=1", "set LR=1e-06", "no such estimator"),
        ),
        ({"STEPS": "abc", "LORA_RANK": "-3", "SEED": "007"}, ("set STEPS=1", "set LORA_RANK=0", "set SEED=7")),
        ({"PPO_MAX_TOKEN_LEN_PER_GPU": "100"}, ("set PPO_MAX_TOKEN_LEN_PER_GPU=4096",)),
        ({"ROLLOUT_TP": "2"}, ("set ROLLOUT_TP=1", "1 GPUs")),
        ({"NGPUS_PER_NODE": "0"}, ("set NGPUS_PER_NODE=1",)),
        ({"TEMPERATURE": "0"}, ("set TEMPERATURE=1.0",)),
        ({"TRAIN_BATCH_SIZE": "8 9"}, ("set TRAIN_BATCH_SIZE=1 ",)),
    ],
)
def test_the_dry_run_names_the_variable_to_change(capsys, knobs, named):
    from dry_run import main

    lines = overrides("qwen2.5_3b_epgrpo", **knobs)
    assert main(["--", *lines]) == 1
    printed = capsys.readouterr()
    assert not printed.out
    for text in named:
        assert text in printed.err


def test_a_key_of_the_command_line_is_not_blamed_on_a_variable(capsys):
    from dry_run import main

    assert main(["--", *overrides("qwen2.5_3b_epgrpo", "trainer.total_training_steps=0")]) == 1
    assert "    set trainer.total_training_steps=1\n" in capsys.readouterr().err


def test_the_check_of_a_launch_prints_nothing_if_all_is_well(capsys):
    from dry_run import main

    assert main(["--check-only", "--", *overrides("qwen2.5_3b_grpo", "actor_rollout_ref.rollout.name=hf")]) == 0
    assert capsys.readouterr() == ("", "")


def test_the_variables_are_those_that_set_the_keys():
    from dry_run import knobs

    marks = {name: f"<{name}>" for name in knobs().values()}
    lines = {line for engine in ("fsdp", "megatron") for line in overrides("qwen2.5_3b_epgrpo", ENGINE=engine, **marks)}
    marked = {tuple(line.split("=", 1)) for line in lines if line.partition("=")[2] in marks.values()}
    assert marked == {(key, marks[name]) for key, name in knobs().items()}
    assert {"LR", "STEPS", "SEED", "ACTOR_TP", "ADV_ESTIMATOR"} <= marks.keys()
