# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Configs that work, with and without warnings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from doctor_configs import GOOD, doctor, doctor_on

from epgrpo_verl.doctor.report import Status

ACTOR, ROLLOUT, MODEL = (f"actor_rollout_ref.{part}" for part in ("actor", "rollout", "model"))
MEGATRON = ("actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2", "trainer.n_gpus_per_node=4")
CHUNKING = f"{ACTOR}.entropy_from_logits_with_chunking=True"
TP = f"{ROLLOUT}.tensor_model_parallel_size"
ASYNC = (
    "trainer.v1.trainer_mode=separate_async",
    "data.train_batch_size=32",
    f"{ROLLOUT}.nnodes=1",
    f"{ROLLOUT}.n_gpus_per_node=1",
    f"{ROLLOUT}.checkpoint_engine.backend=nccl",
)


@pytest.mark.parametrize(
    "changes",
    [
        (),
        (f"{ACTOR}.policy_loss.loss_mode=ep_grpo",),
        (f"{ACTOR}.policy_loss.loss_mode=ep_grpo/gspo", "+algorithm.ep_grpo.num_buckets=20"),
        (f"{ACTOR}.use_dynamic_bsz=True", f"{ACTOR}.ppo_max_token_len_per_gpu=2048", "trainer.n_gpus_per_node=8"),
        ("trainer.v1.trainer_mode=colocate_async",),
        ASYNC,
        (
            *ASYNC,
            "actor_rollout_ref.hybrid_engine=False",
            f"{TP}=2",
            f"{ROLLOUT}.nnodes=2",
        ),
        (f"{TP}=2", f"{ROLLOUT}.data_parallel_size=2", "trainer.n_gpus_per_node=4"),
        (f"{TP}=8", "trainer.nnodes=2", "trainer.n_gpus_per_node=4"),
        ("trainer.use_v1=False",),
        ("+algorithm.ep_grpo.progress=False",),
        ("algorithm.rollout_correction.rollout_is=token", "algorithm.rollout_correction.rollout_rs=token_k1"),
    ],
    ids=lambda changes: ",".join(item.rpartition(".")[2] for item in changes) or "grpo config",
)
def test_a_good_config_passes_with_nothing_to_say(changes):
    report = doctor_on(*changes)
    assert not report.failures and not report.warnings, [*report.failures, *report.warnings]


def test_a_megatron_config_composes_and_passes():
    report = doctor_on(*MEGATRON, config_name="ppo_megatron_trainer")
    assert not report.failures and not report.warnings, [*report.failures, *report.warnings]


def test_megatron_counts_the_gpus_that_a_copy_of_the_model_takes():
    changes = (MEGATRON[0], "trainer.n_gpus_per_node=3")
    check = doctor_on(*changes, config_name="ppo_megatron_trainer").one("batch sizes")
    assert check.fix == ("trainer.n_gpus_per_node=4",)


@pytest.mark.parametrize(
    ("changes", "name", "message", "fix"),
    [
        (("algorithm.adv_estimator=grpo",), "estimator", "a baseline", "algorithm.adv_estimator=ep_grpo"),
        (
            ("algorithm.filter_groups.enable=True",),
            "group filtering",
            "removes the groups with equal rewards",
            "algorithm.filter_groups.enable=False",
        ),
        (
            ("algorithm.use_kl_in_reward=True", "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=4"),
            "KL in reward",
            "subtracts the KL from the reward",
            "algorithm.use_kl_in_reward=False",
        ),
        ((f"{ROLLOUT}.n=1",), "group size", "groups of one response", f"{ROLLOUT}.n=8"),
        (
            (f"{MODEL}.lora_adapter_path=sft",),
            "LoRA start",
            "measures progress from there and not from the adapter",
            f"{MODEL}.lora_adapter_path=null",
        ),
        ((f"{MODEL}.use_fused_kernels=True",), "fused kernels", "wrong entropies", f"{MODEL}.use_fused_kernels=False"),
        (("data.max_response_length=8192",), "entropy memory", "long responses run out of memory", CHUNKING),
        (
            ("data.train_batch_size=12",),
            "batch sizes",
            "verl adds 16 empty rows to each batch",
            f"{ACTOR}.ppo_mini_batch_size=6",
        ),
    ],
)
def test_what_works_against_ep_grpo_is_a_warning_with_a_line(changes, name, message, fix):
    report = doctor_on(*changes)
    assert not report.failures, report.failures
    assert [check.name for check in report.warnings] == [name]
    assert message in report.one(name).message
    assert fix in report.one(name).fix


def test_the_line_against_running_out_of_memory_helps():
    assert not doctor_on("data.max_response_length=8192", CHUNKING).warnings


def test_the_vocabulary_of_a_local_model_is_read(tmp_path: Path):
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": 1000}))
    check = doctor_on("data.max_response_length=8192", f"{MODEL}.path={tmp_path}").one("entropy memory")
    assert check.status is Status.OK
    assert "x 1000 logits" in check.message


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ((), "on, a model of its own; turned on by the plugin, without a KL term"),
        (
            (f"{ACTOR}.use_kl_loss=True", f"{ACTOR}.kl_loss_coef=0.0"),
            "on, a model of its own; as use_kl_loss=True",
        ),
        ((f"{MODEL}.lora_rank=32", f"{ROLLOUT}.name=hf"), "on, the actor with its LoRA adapter off"),
        ((f"{MODEL}.lora_rank=32", f"{ROLLOUT}.name=hf", f"{ACTOR}.use_kl_loss=True"), "on, the actor with its LoRA"),
        (("+algorithm.ep_grpo.progress=False",), "not needed: the progress term is off"),
    ],
)
def test_where_the_reference_comes_from(changes, words):
    report = doctor_on(*changes)
    assert not report.failures, report.failures
    assert words in report.one("reference policy").message


def test_the_temperatures_in_use_are_shown():
    message = doctor_on(f"{ROLLOUT}.temperature=0.6").one("temperature").message
    assert message.startswith("actor 0.6, reference 0.6")


def test_the_v0_trainer_is_asked_for_temperature_and_entropy(monkeypatch):
    from verl.trainer.ppo.ray_trainer import RayPPOTrainer

    report = doctor_on("trainer.use_v1=False", f"{ROLLOUT}.temperature=0.6")
    assert report.one("temperature").message.startswith("actor 0.6, reference 0.6")
    assert report.one("entropy").status is Status.OK
    original = RayPPOTrainer._compute_ref_log_prob

    def at_another_temperature(trainer, batch):
        batch.meta_info["temperature"] = 1.0
        return original(trainer, batch)

    monkeypatch.setattr(RayPPOTrainer, "_compute_ref_log_prob", at_another_temperature)
    check = doctor_on("trainer.use_v1=False", f"{ROLLOUT}.temperature=0.6").one("temperature")
    assert check.status is Status.FAILED
    assert "actor 0.6, reference 1.0" in check.message


@pytest.mark.parametrize(("rank", "served"), [(32, 32), (4, 8)])
def test_the_rank_that_vllm_serves_is_shown(vllm_source, rank, served):
    check = doctor_on(f"{MODEL}.lora_rank={rank}").one("LoRA")
    assert check.status is Status.OK
    assert f"served as rank {served}" in check.message and "allows 1, 8, 16, 32, 64" in check.message


def test_a_config_of_the_users_own(tmp_path: Path):
    (tmp_path / "mine.yaml").write_text(
        "hydra:\n  searchpath: [pkg://verl.trainer.config]\n"
        "defaults: [ppo_trainer, _self_]\n"
        "algorithm: {ep_grpo: {num_buckets: 20}}\n"
    )
    report = doctor(*GOOD, "+algorithm.ep_grpo.gamma=3.0", config_path=str(tmp_path), config_name="mine")
    assert not report.failures, report.failures
    assert report.one("settings").message == "num_buckets=20, gamma=3.0"


def test_a_relative_folder_is_read_from_where_hydra_reads_it(tmp_path: Path, monkeypatch):
    (tmp_path / "configs").mkdir()
    monkeypatch.chdir(tmp_path)
    check = doctor(*GOOD, config_path="configs", config_name="mine").one("config")
    assert check.status is Status.FAILED
    assert check.fix == (f"--config-path={tmp_path / 'configs'}",)
