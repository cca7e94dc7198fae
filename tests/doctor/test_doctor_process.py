# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""A verl in which something is not as the plugin needs it. Each time, one thing of the real verl is taken away."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import verl.trainer.main_ppo as main_ppo
import verl.trainer.ppo.core_algos as core_algos
from doctor_configs import GOOD, doctor, doctor_on
from verl.trainer.ppo.v1 import PPOTrainer

from epgrpo_verl.doctor import process
from epgrpo_verl.plugin import entry


@pytest.fixture
def unregistered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(core_algos.ADV_ESTIMATOR_REGISTRY, "ep_grpo")


@pytest.mark.parametrize(("policy", "line"), [("none", "auto"), ("other_plugin", "other_plugin,epgrpo_verl")])
def test_a_plugin_that_is_kept_out_names_the_variable(unregistered, monkeypatch, policy, line):
    monkeypatch.setenv("VERL_USE_EXTERNAL_PLUGINS", policy)
    check = doctor_on().one("plugin")
    assert f"VERL_USE_EXTERNAL_PLUGINS={policy} keeps the plugin out" in check.message
    assert check.fix == (f"export VERL_USE_EXTERNAL_PLUGINS={line}",)


def test_a_plugin_that_is_on_the_path_but_not_installed(unregistered, monkeypatch):
    monkeypatch.delenv("VERL_USE_EXTERNAL_PLUGINS", raising=False)
    monkeypatch.setattr(process.metadata, "entry_points", lambda group: [])
    check = doctor_on().one("plugin")
    assert "is not installed there" in check.message
    assert check.fix == ("pip install .  # in a clone of its repository",)


def test_a_plugin_that_failed_to_load_says_why(monkeypatch):
    monkeypatch.delitem(core_algos.ADV_ESTIMATOR_REGISTRY, "ep_grpo")  # and put back afterwards
    entry._register_failure(ImportError("No module named 'wrapt'"))
    message = doctor_on().one("plugin").message
    assert "could not be loaded" in message and "No module named 'wrapt'" in message


@pytest.mark.parametrize(
    ("policy", "words", "fix"),
    [
        ("auto", "verl cannot be imported: ModuleNotFoundError", []),
        (
            "none",
            "VERL_USE_EXTERNAL_PLUGINS=none keeps the plugin out. verl can then not be imported: ModuleNotFoundError",
            ["export VERL_USE_EXTERNAL_PLUGINS=auto"],
        ),
    ],
)
def test_a_verl_that_cannot_be_imported_is_a_problem(monkeypatch, policy, words, fix):
    monkeypatch.setenv("VERL_USE_EXTERNAL_PLUGINS", policy)
    monkeypatch.delenv("VERL_USE_EXTERNAL_MODULES", raising=False)
    monkeypatch.setitem(sys.modules, "verl.workers.engine_workers", None)
    found = process.look({})
    (problem,) = found["problems"]
    assert problem.startswith(words)
    assert found["fix"] == fix


def test_a_plugin_that_is_loaded_by_its_other_name_is_not_kept_out(unregistered, monkeypatch):
    monkeypatch.setenv("VERL_USE_EXTERNAL_PLUGINS", "none")
    monkeypatch.setenv("VERL_USE_EXTERNAL_MODULES", "other,epgrpo_verl")
    assert "keeps the plugin out" not in doctor_on().one("plugin").message


def test_a_hook_that_is_gone_is_found_with_what_it_takes_along(monkeypatch):
    monkeypatch.setattr(main_ppo, "need_reference_policy", main_ppo.need_reference_policy.__wrapped__)
    report = doctor_on()
    assert "verl.trainer.main_ppo.need_reference_policy" in report.one("plugin").message
    reference = report.one("reference policy")
    assert "verl would not compute ref_log_prob" in reference.message
    assert reference.fix == ("actor_rollout_ref.actor.use_kl_loss=True", "actor_rollout_ref.actor.kl_loss_coef=0")


def test_a_verl_that_no_longer_computes_entropy_is_found(monkeypatch):
    def without_entropy(self: Any, batch: Any, metrics: dict) -> Any:
        batch.extra_info["temperature"] = self.config.actor_rollout_ref.rollout.temperature
        return self.actor_rollout_wg.compute_log_prob(batch)

    monkeypatch.setattr(PPOTrainer, "_compute_old_log_prob", without_entropy)
    check = doctor_on().one("entropy")
    assert "calculate_entropy is not set" in check.message


def test_a_reference_at_another_temperature_is_found(monkeypatch):
    def at_one(self: Any, batch: Any, metrics: dict) -> Any:
        batch.extra_info["temperature"] = 1.0
        return self.ref_policy_wg.compute_ref_log_prob(batch)

    monkeypatch.setattr(PPOTrainer, "_compute_ref_log_prob", at_one)
    check = doctor_on("actor_rollout_ref.rollout.temperature=0.6").one("temperature")
    assert "actor 0.6, reference 1.0" in check.message and "cannot be compared" in check.message


def test_a_baseline_in_bypass_mode_is_not_asked_for_its_data():
    import ray

    report = doctor_on("algorithm.adv_estimator=grpo", "algorithm.rollout_correction.bypass_mode=True")
    assert "no old log-probs" in report.one("entropy").message
    assert not ray.is_initialized()


def test_looking_leaves_the_config_alone():
    from omegaconf import OmegaConf

    from epgrpo_verl.doctor.compose import compose_config

    config, _ = compose_config(GOOD)
    before = OmegaConf.to_yaml(config)
    found = process.look(OmegaConf.to_container(config))
    assert not found["problems"]
    assert found["estimator"] == "epgrpo_verl.plugin.estimator.compute_ep_grpo_outcome_advantage"
    assert OmegaConf.to_yaml(config) == before
    assert not doctor(*GOOD).failures


def test_a_verl_that_was_not_tested_with_the_plugin_is_a_warning(monkeypatch):
    import verl

    monkeypatch.setattr(verl, "__version__", "99.0")
    report = doctor_on()
    assert report.one("plugin") in report.warnings
    assert "not tested with verl 99.0" in report.one("plugin").message
