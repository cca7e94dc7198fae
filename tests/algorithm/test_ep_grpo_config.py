# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Settings: where they come from and what is refused."""

import dataclasses
import math
import re
import subprocess
import sys

import numpy as np
import pytest
from omegaconf import OmegaConf

import epgrpo_verl
from epgrpo_verl import EPGRPOConfig


def test_from_dict_dictconfig_none_and_itself():
    expected = EPGRPOConfig(num_buckets=20, gamma=3.0)
    settings = {"num_buckets": 20, "gamma": 3}
    assert EPGRPOConfig.from_config(settings) == expected
    assert EPGRPOConfig.from_config(OmegaConf.create(settings)) == expected
    assert EPGRPOConfig.from_config(expected) is expected
    assert EPGRPOConfig.from_config(None) == EPGRPOConfig.from_config({}) == EPGRPOConfig()
    interpolated = OmegaConf.create({"b": 20, "ep_grpo": {"num_buckets": "${b}", "gamma": 3.0}})
    assert EPGRPOConfig.from_config(interpolated.ep_grpo) == expected


def test_numbers_of_other_types_are_normalised():
    config = EPGRPOConfig(gamma=np.float32(2), num_buckets=np.int64(4), advantage_clip=1)
    assert [type(x) for x in (config.gamma, config.num_buckets, config.advantage_clip)] == [float, int, float]


def test_is_frozen_and_hashable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        EPGRPOConfig().gamma = 1.0
    assert hash(EPGRPOConfig()) == hash(EPGRPOConfig())


@pytest.mark.parametrize(
    "key, near",
    [("num_bucket", "num_buckets"), ("lambda", "lam"), ("gama", "gamma"), ("theta", "eta"), ("clip", "advantage_clip")],
)
def test_unknown_key_names_the_nearest(key, near):
    with pytest.raises(
        ValueError, match=rf"unknown setting algorithm\.ep_grpo\.{key}; .*mean algorithm\.ep_grpo\.{near}\?"
    ):
        EPGRPOConfig.from_config({key: 1})


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"num_buckets": 0}, r"num_buckets must be between 1 and 1024, got 0"),
        ({"num_buckets": 1025}, r"num_buckets must be between 1 and 1024, got 1025"),
        ({"gamma": -1.0}, r"gamma must be between 0 and 1000, got -1.0"),
        ({"lam": -0.1}, r"lam must be between 0 and 1000"),
        ({"eta": -0.1}, r"eta must be between 0 and 1000"),
        ({"eta_warmup_steps": -1}, r"eta_warmup_steps must be at least 0"),
        ({"gate_eps": 0.0}, r"gate_eps must be between 1e-12 and 1"),
        ({"progress_eps": 2.0}, r"progress_eps must be between 1e-12 and 1"),
        ({"zero_variance_atol": -1e-9}, r"zero_variance_atol must be at least 0"),
        ({"advantage_clip": 0}, r"advantage_clip must be above 0, or null"),
        ({"advantage_clip": -1.0}, "advantage_clip must be above 0, or null for no clipping; got -1"),
        ({"gamma": math.nan}, r"gamma must be finite, got nan"),
        ({"reward_threshold": math.inf}, r"reward_threshold must be finite"),
        ({"entropy_scope": "token"}, r"entropy_scope must be one of group, batch, sequence; got 'token'"),
        ({"bucket_scope": "sequence"}, r"bucket_scope must be one of group, batch; got 'sequence'"),
    ],
    ids=str,
)
def test_values_out_of_range_say_the_range(settings, message):
    with pytest.raises(ValueError, match=r"algorithm\.ep_grpo\." + message):
        EPGRPOConfig.from_config(settings)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"gate": "true"}, r"gate must be true or false \(not quoted\), got 'true'"),
        ({"progress": 1}, r"progress must be true or false"),
        ({"gate_normalize": None}, r"gate_normalize must be true or false"),
        ({"gamma": "5.0"}, r"gamma must be a number, got '5.0'"),
        ({"gamma": True}, r"gamma must be a number, got True"),
        ({"eta": None}, r"eta must be a number, got None"),
        ({"num_buckets": 10.0}, r"num_buckets must be an integer, got 10.0"),
        ({"num_buckets": True}, r"num_buckets must be an integer, got True"),
        ({"advantage_clip": "1"}, r"advantage_clip must be a number"),
        ({"entropy_scope": ["group"]}, r"entropy_scope must be one of"),
    ],
    ids=str,
)
def test_wrong_types_are_refused(settings, message):
    with pytest.raises((TypeError, ValueError), match=r"algorithm\.ep_grpo\." + message):
        EPGRPOConfig.from_config(settings)


@pytest.mark.parametrize("value", ["gamma=5", 5, ["gamma"], True])
def test_something_else_than_a_mapping_is_refused(value):
    with pytest.raises(TypeError, match="must be a mapping of settings"):
        EPGRPOConfig.from_config(value)


def test_every_setting_is_documented_with_its_source():
    names = [field.name for field in dataclasses.fields(EPGRPOConfig)]
    entries = re.split(r"\n        (\w+): ", EPGRPOConfig.__doc__)
    documented = dict(zip(entries[1::2], entries[2::2], strict=True))
    assert list(documented)[: len(names)] == names
    assert all("Source: " in documented[name] for name in names)


def test_package_is_light_and_its_names_resolve():
    code = (
        "import sys, epgrpo_verl\n"
        "assert 'torch' not in sys.modules and 'verl' not in sys.modules\n"
        "assert set(epgrpo_verl.__all__) <= set(dir(epgrpo_verl))\n"
        "from epgrpo_verl import *\n"
        "import epgrpo_verl.algorithm\n"
        "assert 'verl' not in sys.modules and 'omegaconf' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert epgrpo_verl.__version__ == "0.1.0"
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        epgrpo_verl.nonsense  # noqa: B018
