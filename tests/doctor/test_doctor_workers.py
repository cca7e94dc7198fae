# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The doctor inside Ray workers: a small cluster is started, and ended again."""

from __future__ import annotations

import pytest
import ray
from doctor_configs import GOOD
from omegaconf import OmegaConf

from epgrpo_verl.doctor import process
from epgrpo_verl.doctor.compose import compose_config
from epgrpo_verl.doctor.report import Status
from epgrpo_verl.doctor.workers import worker_checks

pytestmark = [pytest.mark.slow, pytest.mark.nightly]

POLICY = "+ray_kwargs.ray_init.runtime_env.env_vars.VERL_USE_EXTERNAL_PLUGINS"
MODULES = "+ray_kwargs.ray_init.runtime_env.env_vars.VERL_USE_EXTERNAL_MODULES"


@pytest.mark.parametrize(
    ("overrides", "status", "words"),
    [
        ((), Status.OK, "registered and hooked in a Ray worker"),
        ((f"{POLICY}=none", f"{MODULES}=epgrpo_verl"), Status.OK, "registered and hooked in a Ray worker"),
        ((f"{POLICY}=none",), Status.FAILED, "VERL_USE_EXTERNAL_PLUGINS=none keeps the plugin out"),
    ],
    ids=["entry point only", "environment variable only", "kept out"],
)
def test_the_plugin_is_looked_for_in_a_worker_as_verl_starts_it(overrides, status, words):
    config, _ = compose_config((*GOOD, *overrides))
    driver = process.look(OmegaConf.to_container(config))
    (check,) = worker_checks(config, driver, address=None)
    assert check.status is status, check
    assert words in check.message
    assert not ray.is_initialized()


def test_a_cluster_that_does_not_answer_is_named():
    config, _ = compose_config(GOOD)
    (check,) = worker_checks(config, {}, address="127.0.0.1:1")
    assert check.status is Status.FAILED
    assert "No connection to Ray (127.0.0.1:1)" in check.message
    assert not ray.is_initialized()
