# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Overrides and environment of a CPU run."""

import os

import pytest
from hydra import compose, initialize_config_module

from epgrpo_verl.cpu import environment, merge_overrides, overrides
from epgrpo_verl.cpu.__main__ import main


@pytest.mark.parametrize("rollout", ["hf", "vllm"])
@pytest.mark.parametrize("mode", ["sync", "colocate_async", "separate_async"])
def test_verl_accepts_every_override(rollout, mode):
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer", overrides=overrides(rollout, 2, mode))
    assert config.trainer.device == "cpu"
    assert config.trainer.n_gpus_per_node == 2
    assert config.ray_kwargs.ray_init.num_gpus == (3 if mode == "separate_async" else 2)
    assert config.actor_rollout_ref.rollout.name == rollout
    assert config.actor_rollout_ref.actor.strategy == config.actor_rollout_ref.ref.strategy == "fsdp2"
    assert config.actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype == "fp32"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("sglang",), "sglang"), (("hf", 0), "processes=0"), (("hf", 1, "lazy"), "lazy")],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        overrides(*arguments)


def test_merging_drops_what_the_user_sets_and_keeps_the_rest_in_order():
    base = ["a.b=1", "+c.d=2", "e=3"]
    assert merge_overrides(base, ["+c.d=9", "++a.b=8", "f=x=y"]) == ["e=3", "+c.d=9", "++a.b=8", "f=x=y"]
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer", overrides=merge_overrides(overrides(), ["+ray_kwargs.ray_init.num_gpus=7"]))
    assert config.ray_kwargs.ray_init.num_gpus == 7


def test_environment_keeps_what_is_set(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    monkeypatch.delenv("VERL_PLATFORM", raising=False)
    variables = environment("vllm")
    assert variables["VERL_PLATFORM"] == "cpu"
    assert "OMP_NUM_THREADS" not in variables
    assert "VLLM_CPU_KVCACHE_SPACE" in variables
    assert "VLLM_CPU_KVCACHE_SPACE" not in environment("hf")


@pytest.mark.parametrize("threads", ["0", "-3"])
@pytest.mark.parametrize("command", ["env", "overrides", "train"])
def test_too_few_threads_are_refused(command, threads, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, f"--threads={threads}"])
    assert ended.value.code == 2
    assert f"threads={threads} must be at least 1" in capsys.readouterr().err


def test_threads_that_are_asked_for_win_over_the_environment(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert environment(threads=2)["OMP_NUM_THREADS"] == "2"
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert environment()["OMP_NUM_THREADS"] == "1"


def test_command_line_prints_one_override_per_line(capsys):
    assert main(["overrides", "--rollout", "vllm", "--processes", "2"]) == 0
    assert capsys.readouterr().out.splitlines() == overrides("vllm", 2)


def test_command_line_prints_exports_that_a_shell_can_read(capsys, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert main(["env", "--threads", "3"]) == 0
    assert "export OMP_NUM_THREADS=3" in capsys.readouterr().out.splitlines()
    assert "OMP_NUM_THREADS" not in os.environ


@pytest.mark.parametrize("arguments", [["overrides", "x=1"], ["train", "--bogus"], ["env", "--processes", "0"]])
def test_command_line_refuses_what_it_does_not_know(arguments, capsys):
    with pytest.raises(SystemExit) as exit_info:
        main(arguments)
    assert exit_info.value.code == 2
    assert capsys.readouterr().err
