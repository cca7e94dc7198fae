# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What verl is told, and what the user is told, before any model is loaded. The configs are verl's own."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
import verl.trainer.main_ppo as main_ppo
from hydra import compose, initialize_config_dir
from verl.trainer.ppo.utils import need_critic
from verl.utils.config import validate_config

from epgrpo_verl.plugin import EPGRPOPluginError, preflight

LOSS_MODE = "actor_rollout_ref.actor.policy_loss.loss_mode"


@pytest.fixture(autouse=True)
def warn_again():
    preflight.warn_once.cache_clear()


def test_ep_grpo_turns_the_reference_on_when_no_kl_option_did(verl_config):
    assert not main_ppo.need_reference_policy(verl_config())
    assert main_ppo.need_reference_policy(verl_config("algorithm.adv_estimator=ep_grpo"))


@pytest.mark.parametrize("kl", ["actor_rollout_ref.actor.use_kl_loss=True", "algorithm.use_kl_in_reward=True"])
def test_the_reference_stays_on_with_a_kl_option(verl_config, kl):
    kl_config = (kl, "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=2")
    for estimator in ("grpo", "ep_grpo"):
        config = verl_config(f"algorithm.adv_estimator={estimator}", *kl_config)
        assert main_ppo.need_reference_policy(config)
        assert config.actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu == 2


def test_a_working_grpo_config_passes_verls_own_validation_with_nothing_else_set(verl_config):
    config = verl_config("algorithm.adv_estimator=ep_grpo")
    validate_config(config, main_ppo.need_reference_policy(config), need_critic(config))
    assert config.actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu == 4


def test_other_estimators_keep_their_config_untouched(verl_config):
    config = verl_config()
    main_ppo.need_reference_policy(config)
    assert config == verl_config()


def test_without_the_progress_term_no_reference_is_needed(verl_config):
    config = verl_config("algorithm.adv_estimator=ep_grpo", "+algorithm.ep_grpo.progress=False")
    assert not main_ppo.need_reference_policy(config)
    assert config.actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu is None


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("algorithm.rollout_correction.bypass_mode=True", "Set algorithm.rollout_correction.bypass_mode=False"),
        ("+algorithm.ep_grpo.num_bucket=20", "did you mean algorithm.ep_grpo.num_buckets"),
        ("+algorithm.ep_grpo.num_buckets=0", "algorithm.ep_grpo.num_buckets must be between 1 and"),
        ("+algorithm.ep_grpo.gate='true'", "algorithm.ep_grpo.gate must be true or false"),
        (f"{LOSS_MODE}=ep_grpo/gpso", f"no policy loss 'gpso'. Set {LOSS_MODE}=ep_grpo/<name> with one of: vanilla, "),
        (
            f"{LOSS_MODE}=ep_grpo +algorithm.ep_grpo.advantage_clip=2.0",
            f"Set algorithm.ep_grpo.advantage_clip=null, or {LOSS_MODE}=vanilla",
        ),
    ],
)
def test_a_config_that_cannot_work_is_refused_with_the_line_to_change(verl_config, override, words):
    with pytest.raises(EPGRPOPluginError, match=re.escape(words)):
        main_ppo.need_reference_policy(verl_config("algorithm.adv_estimator=ep_grpo", *override.split()))


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("one_step_off_policy", "one_step_off_ppo_trainer"),
        ("fully_async_policy", "fully_async_ppo_trainer"),
    ],
)
def test_experimental_trainers_are_refused_with_their_default_of_bypass_mode(folder, name):
    root = Path(main_ppo.__file__).parents[1] / "experimental" / folder / "config"
    search = "hydra.searchpath=[pkg://verl.trainer.config]"
    with initialize_config_dir(str(root), version_base=None):
        config = compose(name, ["algorithm.adv_estimator=ep_grpo", search])
    with pytest.raises(EPGRPOPluginError, match=r"Set algorithm\.rollout_correction\.bypass_mode=False"):
        main_ppo.need_reference_policy(config)


@pytest.mark.parametrize(("mode", "base"), [("ep_grpo", "vanilla"), ("ep_grpo/gspo", "gspo")])
def test_the_policy_loss_is_refused_with_another_estimator(verl_config, mode, base):
    with pytest.raises(EPGRPOPluginError, match=f"Set algorithm.adv_estimator=ep_grpo, or {LOSS_MODE}={base}"):
        main_ppo.need_reference_policy(verl_config(f"{LOSS_MODE}={mode}"))
    assert main_ppo.need_reference_policy(verl_config("algorithm.adv_estimator=ep_grpo", f"{LOSS_MODE}={mode}"))


def test_a_base_loss_that_only_the_workers_know_is_left_to_them(verl_config):
    overrides = (f"{LOSS_MODE}=ep_grpo/of_mine", "actor_rollout_ref.model.external_lib=my_losses")
    assert main_ppo.need_reference_policy(verl_config("algorithm.adv_estimator=ep_grpo", *overrides))


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (("algorithm.filter_groups.enable=True",), "algorithm.filter_groups.enable=False"),
        (("algorithm.use_kl_in_reward=True",), "algorithm.use_kl_in_reward=False"),
        (("actor_rollout_ref.rollout.n=1",), "actor_rollout_ref.rollout.n=8"),
        (
            ("actor_rollout_ref.model.lora_rank=32", "actor_rollout_ref.model.lora_adapter_path=sft"),
            "measures progress from there and not from the adapter",
        ),
    ],
)
def test_a_config_that_works_against_ep_grpo_is_warned_about_once(verl_config, overrides, words, caplog):
    config = verl_config("algorithm.adv_estimator=ep_grpo", *overrides)
    with caplog.at_level(logging.WARNING, logger="epgrpo_verl"):
        main_ppo.need_reference_policy(config)
        main_ppo.need_reference_policy(config)
    assert [words in record.message for record in caplog.records].count(True) == 1


def test_knobs_arrive_through_hydra(verl_config):
    config = verl_config("algorithm.adv_estimator=ep_grpo", "+algorithm.ep_grpo.num_buckets=20")
    assert preflight.maths_config(config.algorithm).num_buckets == 20


def test_the_section_of_a_verl_that_has_ep_grpo_itself_can_be_read(verl_config):
    section = "+algorithm.ep_grpo={_target_: verl.trainer.config.EPGRPOConfig, eta: 0.3}"
    config = verl_config("algorithm.adv_estimator=ep_grpo", section)
    assert preflight.maths_config(config.algorithm).eta == 0.3
