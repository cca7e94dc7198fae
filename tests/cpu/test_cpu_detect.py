# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""When the CPU backend is wanted."""

import subprocess
import sys

import pytest
import torch

from epgrpo_verl.cpu import detect


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch, tmp_path):
    """No variable set, no device node, no accelerator, no Ray cluster on this machine."""
    for name in ("VERL_PLATFORM", "EPGRPO_CPU", "RAY_ADDRESS", "RAY_RAYLET_PID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.setattr(detect, "_DEVICE_NODES", (str(tmp_path / "nvidia*"),))
    for name in ("cuda", "xpu"):
        monkeypatch.setattr(getattr(torch, name), "is_available", lambda: False)


def test_wanted_where_there_is_no_accelerator():
    assert detect.wanted()


def test_not_wanted_with_a_cuda_device(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert not detect.wanted()


def test_not_wanted_in_a_process_that_hides_the_gpus_of_its_machine(tmp_path):
    (tmp_path / "nvidia0").touch()
    assert not detect.wanted()


@pytest.mark.parametrize(("platform", "expected"), [("cpu", True), (" CPU ", True), ("nvidia", False)])
def test_verl_platform_decides_first(monkeypatch, platform, expected):
    monkeypatch.setenv("VERL_PLATFORM", platform)
    monkeypatch.setenv("EPGRPO_CPU", "0" if expected else "1")
    assert detect.wanted() is expected


@pytest.mark.parametrize(("flag", "expected"), [("1", True), ("yes", True), ("0", False), ("Off", False)])
def test_the_flag_decides_before_the_hardware(monkeypatch, flag, expected):
    monkeypatch.setenv("EPGRPO_CPU", flag)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: expected)
    assert detect.wanted() is expected


def test_an_unknown_flag_is_an_error_that_names_it(monkeypatch):
    monkeypatch.setenv("EPGRPO_CPU", "maybe")
    with pytest.raises(ValueError, match="EPGRPO_CPU='maybe'"):
        detect.wanted()


def test_workers_and_drivers_of_a_ray_cluster_never_decide_by_their_own_hardware(monkeypatch, tmp_path):
    monkeypatch.setenv("RAY_RAYLET_PID", "1")
    assert not detect.wanted()
    monkeypatch.delenv("RAY_RAYLET_PID")
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert not detect.wanted()
    monkeypatch.setenv("RAY_ADDRESS", "local")
    assert detect.wanted()
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text("10.0.0.1:6379")
    monkeypatch.delenv("RAY_ADDRESS")
    assert not detect.wanted()


def test_asking_imports_neither_verl_nor_ray():
    code = "import sys; import epgrpo_verl.cpu as c; c.wanted(); print(sorted({'verl', 'ray'} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
