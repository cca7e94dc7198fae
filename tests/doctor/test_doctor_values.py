# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Single values that verl cannot read: missing, referring to nothing, of the wrong type, or out of range."""

from __future__ import annotations

import json

import pytest
from doctor_configs import GOOD, changed, doctor, doctor_on
from typer.testing import CliRunner

from epgrpo_verl import cli
from epgrpo_verl.doctor.report import as_number, lines_to_mend

ACTOR, ROLLOUT, MODEL = (f"actor_rollout_ref.{part}" for part in ("actor", "rollout", "model"))
MINI = f"{ACTOR}.ppo_mini_batch_size"
LATER = "algorithm.rollout_correction.bypass_mode=True"
"""Another fault, which a check far down the table finds."""


@pytest.mark.parametrize(
    ("override", "message", "fix"),
    [
        ("data.train_batch_size=${nope}", "data.train_batch_size=${nope} leads nowhere", "data.train_batch_size=..."),
        (
            "+algorithm.ep_grpo.gamma=${algorithm.nope}",
            "algorithm.ep_grpo.gamma=${algorithm.nope} leads nowhere",
            "+algorithm.ep_grpo.gamma=...",
        ),
        # verl's own trainer.default_local_dir refers to it, and is not the user's fault.
        ("trainer.experiment_name=${oc.env:NOPE_X}", "Environment variable 'NOPE_X'", "trainer.experiment_name=..."),
        (
            "algorithm.rollout_correction=${nope}",
            "rollout_correction=${nope} leads",
            "algorithm.rollout_correction=...",
        ),
        ("+algorithm.ep_grpo.gamma=???", "algorithm.ep_grpo.gamma has no value", "+algorithm.ep_grpo.gamma=..."),
        ("data.train_batch_size=???", "data.train_batch_size has no value", "data.train_batch_size=..."),
    ],
)
def test_a_value_that_is_not_there_is_named_and_the_rest_is_checked(override, message, fix):
    later = () if "rollout_correction" in override else (LATER,)
    report = doctor(*changed(GOOD, (override, *later)))
    assert [check.name for check in report.failures] == ["config", *(["bypass mode"] if later else [])]
    assert message in report.one("config").message
    assert report.one("config").fix == (fix,)


def test_json_reports_a_broken_interpolation():
    overrides = changed(GOOD, ("data.train_batch_size=${nope}",))
    result = CliRunner().invoke(cli.app, ["doctor", "--no-ray", "--json", *overrides])
    assert result.exit_code == 1
    assert "config" in [check["name"] for check in json.loads(result.stdout)["checks"] if check["status"] == "failed"]


def test_a_section_that_hydra_cannot_read_is_no_traceback():
    (check,) = doctor(*GOOD, "data=5").failures
    assert check.name == "config" and "Got int" in check.message


@pytest.mark.parametrize(
    ("change", "name", "message", "fix"),
    [
        ("data.train_batch_size=null", "batch sizes", "data.train_batch_size=null must be", "data.train_batch_size=8"),
        (f"{MINI}=null", "batch sizes", f"{MINI}=null must be an integer", f"{MINI}=8"),
        ("data.train_batch_size='8'", "batch sizes", "data.train_batch_size='8' must be", "data.train_batch_size=8"),
        ("trainer.nnodes=True", "batch sizes", "trainer.nnodes=True must be an integer", "trainer.nnodes=1"),
        (f"{ACTOR}.optim.lr=fast", "values", "optim.lr='fast': verl needs a number", f"{ACTOR}.optim.lr=1e-06"),
        (f"{ACTOR}.optim.lr='1e-5'", "values", "and this is text", f"{ACTOR}.optim.lr=1e-05"),
        (f"{ACTOR}.optim.lr=-1.0", "values", "cannot be negative", f"{ACTOR}.optim.lr=1e-06"),
        (f"{ROLLOUT}.temperature='0.6'", "values", "and this is text", f"{ROLLOUT}.temperature=0.6"),
        (f"{ROLLOUT}.gpu_memory_utilization=5", "values", "1 at most", f"{ROLLOUT}.gpu_memory_utilization=0.5"),
        ("data.seed=007", "values", "data.seed='007': verl needs a number", "data.seed=7"),
        ("data.max_prompt_length=null", "values", "verl needs a number there", "data.max_prompt_length=512"),
        ("trainer.total_training_steps=abc", "values", "verl needs a number", "trainer.total_training_steps=1"),
        ("trainer.total_training_steps=0", "values", "integer of at least 1", "trainer.total_training_steps=1"),
        ("trainer.save_freq=2.5", "values", "integer of at least -1", "trainer.save_freq=-1"),
        (f"{MODEL}.lora_rank=-3", "values", "integer of at least 0", f"{MODEL}.lora_rank=0"),
        ("trainer.val_before_train='False'", "values", "True or False", "trainer.val_before_train=False"),
    ],
)
def test_a_value_that_verl_cannot_use_is_named_and_the_printed_line_mends_it(change, name, message, fix):
    report = doctor_on(change)
    (check,) = report.failures
    assert check.name == name
    assert message in check.message
    assert check.fix == (fix,)
    mended = doctor_on(change, *lines_to_mend(report.failures))
    assert not mended.failures, mended.failures


def test_a_value_in_the_place_of_a_section_is_named():
    report = doctor(*GOOD, "algorithm.rollout_correction=true")
    (check,) = report.failures
    assert check.message.startswith("algorithm.rollout_correction=True: this is a section. Leave that line out")
    assert "algorithm.rollout_correction.rollout_is" in check.message


@pytest.mark.parametrize(
    "change",
    [
        "trainer.total_training_steps=null",
        f"{ROLLOUT}.top_p=0.9",
        f"{ACTOR}.optim.lr=0",
        f"{ACTOR}.optim.clip_grad=inf",
        "data.seed=0",
        f"{ROLLOUT}.seed=null",
        "trainer.val_before_train=0",
        "trainer.logger=[console,file]",
        "algorithm.rollout_correction.rollout_is_threshold='0.5_2.0'",
    ],
)
def test_what_verl_can_use_passes(change):
    assert not doctor_on(change).failures


@pytest.mark.parametrize(
    ("text", "number"),
    [("8", 8), ("007", 7), ("8.0", 8), ("1e-5", 1e-5), ("-3", -3), ("inf", float("inf")), ("x", None)],
)
def test_numbers_in_texts(text, number):
    assert as_number(text) == number
    assert type(as_number(text)) is type(number)
