# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""``epgrpo evaluate`` with vLLM's CPU build, beside the transformers backend. Each start is a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from evaluation_assets import GRADER, MAX_TOKENS, evaluate, save_adapter, save_problems, stored

from epgrpo_verl.evaluation.store import SAMPLES

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed"),
]


@pytest.fixture
def call(model, tmp_path):
    """Runs the command with a backend, vLLM in another process."""
    data = save_problems(tmp_path / "sums.parquet", "sums", 12)

    def call(out: Path, backend: str, *arguments: Any) -> str:
        base = ("--model", model, "--data", data, "--out", out, "--backend", backend, "--dtype", "float32")
        whole = [str(part) for part in (*base, "--max-tokens", MAX_TOKENS, "--grader", GRADER, *arguments)]
        if backend == "hf":
            result = evaluate(*whole)
            assert result.exit_code == 0, result.output
            return result.stderr
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
        command = [sys.executable, "-m", "epgrpo_verl.cli", "evaluate", *whole]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
        assert result.returncode == 0, result.stderr[-4000:]
        return result.stderr

    return call


def same(left: Path, right: Path, field: str) -> float:
    """The share of samples that agree in a field. Rounding may tip a token of a random model now and then."""
    ours, theirs = stored(left), stored(right)
    assert ours.keys() == theirs.keys()
    return sum(ours[key][field] == theirs[key][field] for key in ours) / len(ours)


def test_greedy_responses_with_an_adapter_are_those_of_transformers(call, model, tmp_path):
    adapter = save_adapter(tmp_path / "adapter", model)
    greedy = ("-n", 1, "--temperature", 0)
    call(tmp_path / "vllm", "vllm", "--lora", adapter, *greedy)
    call(tmp_path / "hf", "hf", "--lora", adapter, *greedy)
    call(tmp_path / "base", "hf", *greedy)
    for field in ("response", "tokens", "finish_reason"):
        assert same(tmp_path / "vllm", tmp_path / "hf", field) >= 0.8
    assert same(tmp_path / "vllm", tmp_path / "base", "response") <= 0.5


def test_a_run_that_was_cut_off_goes_on_with_the_same_seeds(call, tmp_path):
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    call(whole, "vllm", "-n", 3)
    samples = stored(whole)
    assert len({sample["response"] for sample in samples.values()}) > 30
    for sample in samples.values():
        assert sample["tokens"] == MAX_TOKENS or sample["finish_reason"] == "stop"
    resumed.mkdir()
    for file in whole.iterdir():
        (resumed / file.name).write_bytes(file.read_bytes())
    content = (resumed / SAMPLES).read_bytes()
    (resumed / SAMPLES).write_bytes(content[: len(content) // 2])
    there = content[: len(content) // 2].count(b"\n")
    assert f"{there} of 36 are there" in call(resumed, "vllm", "-n", 3)
    assert same(resumed, whole, "seed") == 1
    assert same(resumed, whole, "response") >= 0.9
    settings = json.loads((resumed / "settings.json").read_text())
    assert settings["fixed"]["backend"] == "vllm" and len(settings["sessions"]) == 2
