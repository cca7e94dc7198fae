# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Broken configs. Each is found by name, with a message of its own, and with the line that mends it."""

from __future__ import annotations

import json

import pytest
from doctor_configs import GOOD, Report, changed, doctor, doctor_on, key_of

from epgrpo_verl.doctor.report import lines_to_mend

ACTOR, ROLLOUT, MODEL = (f"actor_rollout_ref.{part}" for part in ("actor", "rollout", "model"))
MINI, MICRO = f"{ACTOR}.ppo_mini_batch_size", f"{ACTOR}.ppo_micro_batch_size_per_gpu"
OLD_MICRO = f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu"
REF_MICRO = "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu"
LOSS_MODE = f"{ACTOR}.policy_loss.loss_mode"
ULYSSES = f"{ACTOR}.ulysses_sequence_parallel_size"
TP = f"{ROLLOUT}.tensor_model_parallel_size"
SEPARATE = ("trainer.v1.trainer_mode=separate_async", "data.train_batch_size=32")

BROKEN = {
    "estimator misspelt": (
        ["algorithm.adv_estimator=ep-grpo"],
        "estimator",
        "verl knows no such estimator",
        ["algorithm.adv_estimator=ep_grpo"],
    ),
    "settings without the estimator": (
        ["algorithm.adv_estimator=grpo", "+algorithm.ep_grpo.gamma=5"],
        "estimator",
        "so the settings algorithm.ep_grpo have no effect",
        ["algorithm.adv_estimator=ep_grpo"],
    ),
    "setting out of range": (
        ["+algorithm.ep_grpo.num_buckets=0"],
        "settings",
        "num_buckets must be between 1 and 1024, got 0",
        ["+algorithm.ep_grpo.num_buckets=10"],
    ),
    "setting of the wrong type": (
        ["+algorithm.ep_grpo.gate='true'"],
        "settings",
        "gate must be true or false",
        ["+algorithm.ep_grpo.gate=True"],
    ),
    "bypass mode": (
        ["algorithm.rollout_correction.bypass_mode=True"],
        "bypass mode",
        "token entropy of the actor's old-log-prob pass, which bypass mode skips",
        ["algorithm.rollout_correction.bypass_mode=False"],
    ),
    "policy loss without the estimator": (
        ["algorithm.adv_estimator=grpo", f"{LOSS_MODE}=ep_grpo"],
        "policy loss",
        "which is not in use",
        ["algorithm.adv_estimator=ep_grpo"],
    ),
    "policy loss over none of verl's": ([f"{LOSS_MODE}=ep_grpo/nope"], "policy loss", "no policy loss 'nope'", None),
    "clipped advantages that the loss changes": (
        [f"{LOSS_MODE}=ep_grpo", "+algorithm.ep_grpo.advantage_clip=5.0"],
        "policy loss",
        "advantage_clip bounds the advantages of the estimator",
        ["+algorithm.ep_grpo.advantage_clip=null"],
    ),
    "greedy sampling": (
        [f"{ROLLOUT}.temperature=0"],
        "temperature",
        "actor 0, reference 0",
        [f"{ROLLOUT}.temperature=1.0"],
    ),
    "no such trainer": (
        ["trainer.v1.trainer_mode=synchronous"],
        "trainer mode",
        "Unknown trainer 'synchronous'",
        ["trainer.v1.trainer_mode=sync"],
    ),
    "two prompts for eight GPUs": (
        ["data.train_batch_size=2", f"{MINI}=2", f"{ROLLOUT}.n=1", "trainer.n_gpus_per_node=8"],
        "batch sizes",
        "A batch of 2 prompts x 1 responses = 2 rows does not divide among 8 GPUs",
        ["data.train_batch_size=8"],
    ),
    "mini-batch larger than the batch": (
        [f"{MINI}=16"],
        "batch sizes",
        "data.train_batch_size=8 prompts are less than one mini-batch",
        [f"{MINI}=8"],
    ),
    "mini-batch does not reach all GPUs": (
        [f"{MINI}=2", f"{ROLLOUT}.n=2", "trainer.n_gpus_per_node=8"],
        "batch sizes",
        "A mini-batch of 2 prompts x 2 responses = 4 rows does not divide among 8 GPUs",
        [f"{MINI}=4"],
    ),
    "micro-batch does not divide": (
        [f"{MICRO}=3"],
        "batch sizes",
        f"Each GPU gets 32 rows of a mini-batch, which is no multiple of {MICRO}=3",
        [f"{MICRO}=2"],
    ),
    "micro-batch of the old log-probs does not divide": (
        [f"{OLD_MICRO}=5"],
        "batch sizes",
        f"Each GPU gets 32 rows of a batch, which is no multiple of {OLD_MICRO}=5",
        [f"{OLD_MICRO}=4", f"{REF_MICRO}=4"],
    ),
    "micro-batch of none": (
        [f"{MICRO}=0"],
        "batch sizes",
        f"{MICRO}=0 must be an integer of at least 1",
        [f"{MICRO}=1"],
    ),
    "one pass by tokens, one by rows": (
        [f"{ACTOR}.use_dynamic_bsz=True", f"{ROLLOUT}.log_prob_use_dynamic_bsz=False"],
        "batch sizes",
        "verl stops when they differ",
        [f"{ROLLOUT}.log_prob_use_dynamic_bsz=True"],
    ),
    "token budget below one response": (
        [f"{ACTOR}.use_dynamic_bsz=True", f"{ACTOR}.ppo_max_token_len_per_gpu=1000"],
        "batch sizes",
        f"{ACTOR}.ppo_max_token_len_per_gpu=1000 tokens cannot hold one prompt with its response, 1024 tokens",
        [f"{ACTOR}.ppo_max_token_len_per_gpu=1024"],
    ),
    "sequence parallel over more GPUs than there are": (
        [f"{ULYSSES}=2", f"{MODEL}.use_remove_padding=True"],
        "batch sizes",
        "1 GPUs cannot be shared by copies of the model that take 2 GPUs each",
        ["trainer.n_gpus_per_node=2"],
    ),
    "separate_async with a batch of another size": (
        ["trainer.v1.trainer_mode=separate_async"],
        "batch sizes",
        "needs data.train_batch_size = trainer.v1.separate_async.parameter_sync_step x ppo_mini_batch_size = 4 x 8",
        ["data.train_batch_size=32"],
    ),
    "V0 with a rest of a mini-batch": (
        ["trainer.use_v1=False", "data.train_batch_size=12"],
        "batch sizes",
        "12 prompts are not a whole number of mini-batches",
        [f"{MINI}=6"],
    ),
    "one GPU for servers of two": (
        [f"{TP}=2"],
        "rollout",
        "1 GPUs (trainer.nnodes x trainer.n_gpus_per_node) cannot be shared by rollout servers of 2 GPUs each",
        [f"{TP}=1"],
    ),
    "GPUs that copies in data parallel do not fill": (
        ["trainer.n_gpus_per_node=4", f"{ROLLOUT}.data_parallel_size=3", f"{TP}=2"],
        "rollout",
        "tensor x data x pipeline parallel size = 2 x 3 x 1",
        [f"{ROLLOUT}.data_parallel_size=1"],
    ),
    "a server that ends in the middle of a node": (
        ["trainer.nnodes=3", "trainer.n_gpus_per_node=4", "data.train_batch_size=12", f"{MINI}=12", f"{TP}=6"],
        "rollout",
        "A rollout server of 6 GPUs does not fill whole nodes of 4 GPUs",
        [f"{TP}=2"],
    ),
    "pipeline parallel rollout on vLLM": (
        ["trainer.n_gpus_per_node=2", f"{ROLLOUT}.pipeline_model_parallel_size=2"],
        "rollout",
        "self.name='vllm' not implemented pipeline_model_parallel_size > 1",
        None,
    ),
    "separate_async without GPUs for the rollout": (
        [*SEPARATE, f"{ROLLOUT}.checkpoint_engine.backend=nccl"],
        "rollout",
        f"needs GPUs for its rollout servers, got {ROLLOUT}.nnodes=0",
        [f"{ROLLOUT}.nnodes=1"],
    ),
    "separate_async without a way to send weights": (
        [*SEPARATE, f"{ROLLOUT}.nnodes=1"],
        "rollout",
        f"which {ROLLOUT}.checkpoint_engine.backend=naive cannot",
        [f"{ROLLOUT}.checkpoint_engine.backend=nccl"],
    ),
    "separate_async with less GPUs than a server takes": (
        [*SEPARATE, "trainer.n_gpus_per_node=4", f"{TP}=4", f"{ROLLOUT}.nnodes=1", f"{ROLLOUT}.n_gpus_per_node=2"],
        "rollout",
        "The 2 GPUs of the separate rollout servers",
        [f"{ROLLOUT}.nnodes=2"],
    ),
    "micro-batch sizes in two units": (
        [f"{ACTOR}.ppo_micro_batch_size=4"],
        "verl's own checks",
        "You have set both 'actor.ppo_micro_batch_size' AND 'actor.ppo_micro_batch_size_per_gpu'",
        None,
    ),
}

REFUSED_BY_HYDRA = {
    "setting without a plus": (
        ["algorithm.ep_grpo.gamma=5"],
        "config",
        "need a '+' in front",
        ["+algorithm.ep_grpo.gamma=5"],
    ),
    "plus in front of a key of verl": (
        ["+algorithm.filter_groups.enable=False"],
        "config",
        "takes no '+'",
        ["algorithm.filter_groups.enable=False"],
    ),
    "rollout without a name": ([f"-{ROLLOUT}.name"], "config", f"{ROLLOUT}.name has no value", None),
    "nothing turns EP-GRPO on": (
        ["-algorithm.adv_estimator"],
        "estimator",
        "adv_estimator=gae is verl's default",
        ["algorithm.adv_estimator=ep_grpo"],
    ),
    "micro-batch not set": ([f"-{OLD_MICRO}"], "batch sizes", f"{OLD_MICRO} has no value", [f"{OLD_MICRO}=4"]),
}
"""Configs that differ from a good one in how they are composed; ``-key`` leaves a key out."""


def lines_of(report: Report) -> tuple[str, ...]:
    return tuple(lines_to_mend(report.failures))


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_config_is_found_by_name_and_the_printed_lines_mend_it(case):
    changes, name, message, fix = BROKEN[case]
    report = doctor_on(*changes)
    found = [check for check in report.failures if check.name == name and message in check.message]
    assert found, report.failures
    if fix is not None:
        assert list(found[0].fix) == fix
        mended = doctor_on(*changes, *lines_of(report))
        assert not mended.failures, mended.failures


@pytest.mark.parametrize("case", REFUSED_BY_HYDRA)
def test_a_config_that_is_composed_in_a_wrong_way_is_found_and_mended(case):
    changes, name, message, fix = REFUSED_BY_HYDRA[case]
    left_out = {change[1:] for change in changes if change.startswith("-")}
    overrides = tuple(item for item in GOOD if key_of(item) not in left_out)
    overrides = changed(overrides, tuple(change for change in changes if not change.startswith("-")))
    report = doctor(*overrides)
    found = [check for check in report.failures if check.name == name and message in check.message]
    assert found, report.failures
    if fix is not None:
        assert list(found[0].fix) == fix
        mended = doctor(*changed(overrides, lines_of(report)))
        assert not mended.failures, mended.failures


def test_every_broken_config_has_a_message_of_its_own():
    messages = [message for _, _, message, _ in (*BROKEN.values(), *REFUSED_BY_HYDRA.values())]
    assert len(set(messages)) == len(messages) >= 12


def test_misspelt_keys_are_named_and_the_rest_is_checked_without_them():
    report = doctor(*GOOD, f"{ROLLOUT}.temperatur=0.6", "+algorithm.ep_grpo.num_bucket=20", f"{MICRO}=3")
    config, setting, sizes = report.failures
    assert f"no key {ROLLOUT}.temperatur. Did you mean {ROLLOUT}.temperature?" in config.message
    assert config.fix == (f"{ROLLOUT}.temperature=0.6",)
    assert "did you mean algorithm.ep_grpo.num_buckets?" in setting.message
    assert setting.fix == ("+algorithm.ep_grpo.num_buckets=20",)
    assert sizes.name == "batch sizes"


def test_one_run_shows_all_that_is_wrong():
    bypass = "algorithm.rollout_correction.bypass_mode=True"
    overrides = changed(GOOD, ("algorithm.ep_grpo.gamma=-1", bypass, f"{MICRO}=3", f"{OLD_MICRO}=5"))
    report = doctor(*overrides)
    names = [check.name for check in report.failures]
    assert names == ["config", "settings", "bypass mode", "batch sizes", "batch sizes"]
    assert not doctor(*changed(overrides, lines_of(report))).failures


def test_a_key_that_is_added_twice_is_found():
    twice = ("+algorithm.ep_grpo.gamma=-1", "+algorithm.ep_grpo.gamma=5.0")
    report = doctor(*GOOD, *twice)
    assert report.one("config").fix == ("algorithm.ep_grpo.gamma=5.0",)
    assert report.one("settings").message == "gamma=5.0"


def test_a_rank_that_vllm_does_not_serve_names_the_largest(vllm_source):
    check = doctor_on(f"{MODEL}.lora_rank=128").one("LoRA")
    assert "Rank 128 is too large" in check.message and "allows 1, 8, 16, 32, 64" in check.message
    assert check.fix == (f"{MODEL}.lora_rank=64",)


@pytest.mark.parametrize(
    ("changes", "name", "message", "fix"),
    [
        (
            (f"{TP}=4", "trainer.n_gpus_per_node=4"),
            "attention heads",
            f"14 attention heads cannot be split into 4 equal parts ({TP})",
            f"{TP}=2",
        ),
        (
            (f"{ULYSSES}=4", f"{MODEL}.use_remove_padding=True", "trainer.n_gpus_per_node=4"),
            "attention heads",
            f"14 attention heads cannot be split into 4 equal parts ({ULYSSES})",
            f"{ULYSSES}=2",
        ),
        (
            (f"{ULYSSES}=7", f"{MODEL}.use_remove_padding=True", "trainer.n_gpus_per_node=7"),
            "attention heads",
            "The model's 2 key-value heads and 7 parts",
            f"{ULYSSES}=1",
        ),
        (
            (f"{ROLLOUT}.max_model_len=4096",),
            "rollout",
            f"{ROLLOUT}.max_model_len=4096, but the model has 2048 positions",
            f"{ROLLOUT}.max_model_len=2048",
        ),
    ],
)
def test_what_a_known_model_cannot_do_is_found_and_mended(tmp_path, changes, name, message, fix):
    shape = {"num_attention_heads": 14, "num_key_value_heads": 2, "max_position_embeddings": 2048}
    (tmp_path / "config.json").write_text(json.dumps(shape))
    changes = (f"{MODEL}.path={tmp_path}", *changes)
    report = doctor_on(*changes)
    check = report.failures[0]
    assert check.name == name
    assert message in check.message
    assert check.fix == (fix,)
    mended = doctor_on(*changes, *lines_of(report))
    assert not mended.failures, mended.failures


def test_megatron_deals_out_whole_heads_too(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"num_attention_heads": 6}))
    key = f"{ACTOR}.megatron.tensor_model_parallel_size"
    changes = (f"{MODEL}.path={tmp_path}", f"{key}=4", "trainer.n_gpus_per_node=4")
    check = doctor_on(*changes, config_name="ppo_megatron_trainer").one("attention heads")
    assert check.fix == (f"{key}=2",)
