# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of the advantage and of the grader run, and their tables hold what they say."""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.advantage import GROUP, NAMES, make_inputs, size_of

ROOT = Path(__file__).resolve().parents[2]


def run(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, f"benchmarks/{script}", *arguments], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_cost_of_the_advantage_is_measured_for_all_functions(tmp_path):
    file = tmp_path / "advantage.json"
    table = run("advantage.py", "--sizes", "64x512", "--repeats", "1", "--threads", "1", "--json", str(file))
    found = json.loads(file.read_text())["results"]["64x512"]
    assert list(found) == list(NAMES)
    assert all(function["seconds"] > 0 for function in found.values())
    # Five float32 results and one of int16, which a streaming pass has not.
    assert found["ep_grpo"]["extra_arrays"] > 5.5 > found["stream"]["extra_arrays"]
    rows = [[cell.strip() for cell in line.split("│")] for line in table.splitlines()]
    assert [row[2] for row in rows if len(row) > 2] == list(NAMES)


@pytest.mark.slow
def test_the_grader_agrees_with_every_pair_and_every_gold():
    table = run("grading.py", "--only", "epgrpo")
    pairs, golds = map(int, re.search(r"(\d+) pairs, .* (\d+) golds", table).groups())
    (row,) = [line for line in table.splitlines() if line.startswith("| epgrpo ")]
    agree, rejected, accepted, hung, _, _, right, *_ = [cell.strip() for cell in row.strip("|").split("|")][1:]
    assert [int(cell) for cell in (agree, rejected, accepted, hung, right)] == [pairs, 0, 0, 0, golds]


def test_the_inputs_of_the_advantage_are_those_that_its_docstring_promises():
    (rewards, mask, entropy, old_log_probs, ref_log_prob), uid = make_inputs(240, 64)
    lengths = mask.sum(dim=1)
    assert 8 <= lengths.min() and lengths.max() <= 64
    assert torch.equal(rewards.nonzero()[:, 1], lengths[rewards.sum(dim=1) > 0] - 1)
    assert len(set(uid)) == 240 // GROUP
    equal = rewards.sum(dim=1).view(-1, GROUP).std(dim=1) == 0
    assert 10 <= equal.sum() <= 12
    assert (entropy >= 0).all() and (old_log_probs <= 0).all() and ref_log_prob.shape == mask.shape


@pytest.mark.parametrize("text", ["64", "64x", "x512", "12x512", "0x512", "64x0", "-8x512", "64x5.5"])
def test_a_size_that_is_none_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="multiple of 8"):
        size_of(text)


def test_a_size_is_taken_as_it_is():
    assert size_of("64x512") == "64x512"
