# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""A GRPO config that works, and what the doctor finds on changes of it."""

from __future__ import annotations

import copy
import functools

from omegaconf import DictConfig

from epgrpo_verl.doctor.command import examine, examine_config
from epgrpo_verl.doctor.compose import compose_config
from epgrpo_verl.doctor.report import Check, Status, apply

GOOD = (
    "algorithm.adv_estimator=ep_grpo",
    "data.train_batch_size=8",
    "data.max_prompt_length=512",
    "data.max_response_length=512",
    "actor_rollout_ref.model.path=model",
    "actor_rollout_ref.actor.ppo_mini_batch_size=8",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.rollout.n=4",
    "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4",
    "trainer.n_gpus_per_node=1",
)
"""A GRPO config without a KL term, with EP-GRPO's one line in front."""


def key_of(override: str) -> str:
    return override.lstrip("+").partition("=")[0]


def changed(overrides: tuple[str, ...], lines: tuple[str, ...]) -> tuple[str, ...]:
    """Overrides with lines put in, each in place of those for the same key, as a user would do it."""
    keys = {key_of(line) for line in lines}
    return (*(item for item in overrides if key_of(item) not in keys), *lines)


class Report:
    """What the doctor found, by name and by status."""

    def __init__(self, checks: list[Check]):
        self.checks = checks

    def one(self, name: str) -> Check:
        """The only check of that name."""
        (check,) = [check for check in self.checks if check.name == name]
        return check

    @property
    def failures(self) -> list[Check]:
        return [check for check in self.checks if check.status is Status.FAILED]

    @property
    def warnings(self) -> list[Check]:
        return [check for check in self.checks if check.status is Status.WARNING]


def doctor(*overrides: str, **options: str) -> Report:
    """Run the doctor without Ray."""
    checks, _ = examine(overrides, use_ray=False, **options)
    return _report(checks)


@functools.cache
def _good_config(config_name: str | None) -> DictConfig:
    config, checks = compose_config(GOOD, config_name=config_name)
    assert config is not None, checks
    return config


def doctor_on(*changes: str, config_name: str | None = None) -> Report:
    """Run the doctor without Ray on the config of `GOOD`, composed once, with some keys set to other values."""
    config = copy.deepcopy(_good_config(config_name))
    apply(config, changes)
    return _report(examine_config(config, use_ray=False)[0])


def _report(checks: list[Check]) -> Report:
    assert not [check for check in checks if "Could not be checked" in check.message], checks
    return Report(checks)
