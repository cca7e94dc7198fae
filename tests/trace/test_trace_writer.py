# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What is written: the numbers of the result, whole files, within the size, and what reading says about bad ones."""

from __future__ import annotations

import gzip
import json
import math
import resource
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from trace_batches import make_batch, texts, write_trace

from epgrpo_verl import EPGRPOConfig
from epgrpo_verl.trace.format import QUANTITIES, TraceError
from epgrpo_verl.trace.reader import read_trace, read_trace_file
from epgrpo_verl.trace.record import group_records, sample_groups
from epgrpo_verl.trace.writer import TraceFull, TraceWriter

FIELDS = {name: name for name in QUANTITIES} | {"advantage": "advantages"}


def test_a_trace_has_the_numbers_of_the_result(tmp_path):
    batch = make_batch(seed=1)
    result = batch.result()
    (step,) = read_trace(write_trace(tmp_path, steps=[1]))
    assert step.header["groups_in_batch"] == 3 and EPGRPOConfig(**step.header["config"]) == result.config
    assert [group["zero_variance"] for group in step.groups] == [False, True, True]
    seen = []
    for group in step.groups:
        for response in group["responses"]:
            row = response["row"]
            seen.append(row)
            assert batch.uid[row] == group["uid"]
            assert response["ids"] == batch.responses[row] and response["tokens"] == texts(batch.responses[row])
            assert group["prompt_ids"] == batch.prompts[row]
            assert response["reward"] == batch.rewards[row].sum().item()
            assert response["anchor"] == result.anchor[row].item() and response["votes"]
            assert response["grpo_advantage"] == pytest.approx(result.outcome_advantage[row].item(), rel=1e-4)
            length = len(response["ids"])
            valid = batch.mask[row, :length].tolist()
            assert response["mask"] == valid
            for name in QUANTITIES:
                expected = (batch.entropy if name == "entropy" else getattr(result, FIELDS[name]))[row, :length]
                for value, number, one in zip(response[name], expected.tolist(), valid, strict=True):
                    assert value == pytest.approx(number, rel=1e-4) if one else value is None, (name, row)
    assert sorted(seen) == list(range(12)), "the row without a valid token is in no group"


def test_grpo_beside_it_is_verls_own(tmp_path):
    from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage

    batch = make_batch(seed=1)
    advantages, _ = compute_grpo_outcome_advantage(batch.rewards, batch.mask, np.array(batch.uid, dtype=object))
    (step,) = read_trace(write_trace(tmp_path, steps=[1]))
    for group in step.groups:
        for response in group["responses"]:
            verls = advantages[response["row"]][batch.mask[response["row"]] != 0]
            torch.testing.assert_close(verls, torch.full_like(verls, response["grpo_advantage"]), rtol=1e-4, atol=1e-4)


def test_what_was_not_computed_is_null(tmp_path):
    batch = make_batch()
    batch.entropy = batch.old_log_probs = batch.ref_log_prob = None
    result = batch.result(EPGRPOConfig(gate=False, progress=False))
    (group,) = group_records(result, None, batch.uid, [0], batch.read_tokens, None)
    response = group["responses"][0]
    assert response["entropy"] is None and response["log_ratio"] is None and response["tokens"] is None
    assert set(response["advantage"]) == {response["grpo_advantage"]}


def test_an_output_with_another_prompt_brings_its_own():
    batch = make_batch()
    batch.prompts[3] = [7, 7]
    (group,) = group_records(batch.result(), batch.entropy, batch.uid, [0], batch.read_tokens, texts)
    own = {response["row"]: response.get("prompt_ids") for response in group["responses"]}
    assert own == {0: None, 3: [7, 7], 6: None, 9: None}


def test_tokens_that_do_not_fit_the_mask_are_an_error():
    batch = make_batch()
    batch.responses[0] = batch.responses[0][:3]
    with pytest.raises(ValueError, match="row 0 has 3 response tokens"):
        list(group_records(batch.result(), batch.entropy, batch.uid, [0], batch.read_tokens, texts))


def test_groups_are_drawn_evenly_and_the_same_way_each_time():
    result = make_batch().result()
    draws = [sample_groups(result, 1, f"{step}/1") for step in range(600)]
    assert draws == [sample_groups(result, 1, f"{step}/1") for step in range(600)]
    counts = Counter(group for (group,) in draws)
    assert set(counts) == {0, 1, 2} and min(counts.values()) > 150
    assert sample_groups(result, 9, "1/1") == [0, 1, 2]


def test_step_1_and_the_multiples_are_due():
    writer = TraceWriter("nowhere", every=5, max_mb=1)
    assert [step for step in range(1, 16) if writer.due(step)] == [1, 5, 10, 15]
    writer = TraceWriter("nowhere", every=2, max_mb=1)
    assert [writer.due(None) for _ in range(5)] == [1, 2, None, 4, None], "without a step, calls are counted"


def test_a_step_of_several_updates_has_a_file_each_and_a_second_run_replaces_them(tmp_path):
    for run in range(2):
        writer = TraceWriter(tmp_path, every=1, max_mb=1)
        for part in (1, 2):
            assert writer.next_part(7) == part
            writer.write(7, [{"run": run, "part": part}])
    found = {path.name: json.loads(gzip.decompress(path.read_bytes())) for path in tmp_path.iterdir()}
    assert found == {"step_000007.jsonl.gz": {"run": 1, "part": 1}, "step_000007-2.jsonl.gz": {"run": 1, "part": 2}}


def test_the_same_trace_has_the_same_bytes(tmp_path):
    first, second = (write_trace(tmp_path / name, steps=[3]) / "step_000003.jsonl.gz" for name in "ab")
    assert first.read_bytes() == second.read_bytes()


def test_no_file_takes_the_folder_over_its_size(tmp_path):
    writer = TraceWriter(tmp_path, every=1, max_mb=0.002)
    noise = [{"noise": torch.rand(100, generator=torch.Generator().manual_seed(0)).tolist()}]
    writer.write(1, noise)
    with pytest.raises(TraceFull, match="step_000003.jsonl.gz would add"):
        for step in range(2, 9):
            writer.write(step, noise)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 2000
    TraceWriter(tmp_path, every=1, max_mb=0.002).write(1, noise)  # of a resumed run: replaces the first, so it fits


def test_a_write_that_fails_half_way_leaves_nothing(tmp_path):
    writer = TraceWriter(tmp_path, every=1, max_mb=1)
    noise = [{"noise": torch.rand(5000).tolist()}]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))  # as a full disk: the write stops after 4096 bytes
    try:
        with pytest.raises(OSError):
            writer.write(1, noise)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []


def _edit(path: Path, change) -> None:
    records = [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
    change(records)
    path.write_bytes(gzip.compress("".join(json.dumps(record) + "\n" for record in records).encode()))


BROKEN = {
    "cut off": (lambda path: path.write_bytes(path.read_bytes()[:-200]), "damaged"),
    "bits": (lambda path: path.write_bytes(path.read_bytes()[:300] + b"\0" * 50 + path.read_bytes()[350:]), "damaged"),
    "not gzip": (lambda path: path.write_text("hello"), "not a trace"),
    "empty": (lambda path: path.write_bytes(gzip.compress(b"")), "line 1: not JSON"),
    "not JSON": (lambda path: path.write_bytes(gzip.compress(b'{"schema"')), "line 1: not JSON"),
    "another schema": (lambda path: _edit(path, lambda records: records[0].update(schema="x")), "no schema"),
    "a later version": (lambda path: _edit(path, lambda records: records[0].update(version=2)), "version 2"),
    "no step": (lambda path: _edit(path, lambda records: records[0].pop("step")), "line 1: step is missing"),
    "no gate": (
        lambda path: _edit(path, lambda records: records[2]["responses"][1].pop("gate")),
        "line 3, response 1: gate is missing",
    ),
    "too few": (
        lambda path: _edit(path, lambda records: records[1]["responses"][0]["progress"].pop()),
        "line 2, response 0: progress is not a list of one value for each",
    ),
    "text for a number": (
        lambda path: _edit(path, lambda records: records[1]["responses"][0]["gate"].__setitem__(0, "1")),
        "line 2, response 0: gate holds something that is no number",
    ),
    "a list": (lambda path: path.write_bytes(gzip.compress(b"[1]")), "line 1: not a record"),
}


@pytest.mark.parametrize(("damage", "words"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_named_with_what_is_wrong(tmp_path, damage, words):
    path = write_trace(tmp_path, steps=[1]) / "step_000001.jsonl.gz"
    damage(path)
    with pytest.raises(TraceError, match=words) as error:
        read_trace_file(path)
    assert str(path) in str(error.value)


def test_no_trace_and_a_step_that_is_not_there(tmp_path):
    with pytest.raises(TraceError, match="no such file"):
        read_trace(tmp_path / "gone")
    with pytest.raises(TraceError, match="trace_dir"):
        read_trace(tmp_path)
    write_trace(tmp_path, steps=[10, 2])
    assert [step.step for step in read_trace(tmp_path)] == [2, 10]
    assert [step.step for step in read_trace(tmp_path, [10])] == [10]
    with pytest.raises(TraceError, match="no step 3 in this trace; it has 2, 10"):
        read_trace(tmp_path, [3])


def test_files_of_other_steps_are_not_read(tmp_path):
    write_trace(tmp_path, steps=[1, 2])
    (tmp_path / "step_000001.jsonl.gz").write_text("damaged")
    assert [step.step for step in read_trace(tmp_path, [2])] == [2]
    (tmp_path / "step_000002.jsonl.gz").rename(tmp_path / "step_of_mine.jsonl.gz")
    assert [step.step for step in read_trace(tmp_path, [2])] == [2]


def test_a_trace_is_small(tmp_path):
    """About 25 bytes per token, with all eight quantities."""
    write_trace(tmp_path, steps=[1], columns=1000)
    tokens = sum(len(row) for row in make_batch(columns=1000, seed=1).responses)
    size = (tmp_path / "step_000001.jsonl.gz").stat().st_size
    assert math.isfinite(size) and size / tokens < 30
