# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The doctor inside Ray workers: a small cluster is started, and ended again. And a cluster that is not there."""

from __future__ import annotations

import time

import pytest
import ray
from doctor_configs import GOOD
from omegaconf import OmegaConf

from epgrpo_verl.doctor import process
from epgrpo_verl.doctor.compose import compose_config
from epgrpo_verl.doctor.report import Status
from epgrpo_verl.doctor.workers import CONNECT_S, worker_checks

POLICY = "+ray_kwargs.ray_init.runtime_env.env_vars.VERL_USE_EXTERNAL_PLUGINS"
MODULES = "+ray_kwargs.ray_init.runtime_env.env_vars.VERL_USE_EXTERNAL_MODULES"


@pytest.mark.nightly
@pytest.mark.slow
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


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "[::1]:1"])
def test_a_cluster_that_does_not_answer_is_named_at_once(address):
    config, _ = compose_config(GOOD)
    started = time.monotonic()
    (check,) = worker_checks(config, {}, address=address)
    assert time.monotonic() - started < CONNECT_S
    assert check.status is Status.FAILED
    assert f"No connection to Ray ({address})" in check.message
    assert not ray.is_initialized()
