# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Traces and logs of trainings."""

from __future__ import annotations

import json

import pytest
from diagnose_assets import GROUPS, STEPS, diagnose, expected_shares, one_line, traced_batch, write_trace
from hypothesis import given
from hypothesis import strategies as st

from epgrpo_verl.diagnose.concentration import concentration
from epgrpo_verl.diagnose.steps import label_source, load_checker, read_label_lines
from epgrpo_verl.diagnose.traces import diagnose_trace
from epgrpo_verl.diagnose.zero_variance import zero_variance
from epgrpo_verl.evaluation.errors import EvaluationError
from epgrpo_verl.trace.reader import read_trace
from epgrpo_verl.view.metrics import ZERO_VARIANCE


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return write_trace(tmp_path_factory.mktemp("trace"))


def test_polarity_of_a_trace_is_that_of_the_batch(trace):
    found = diagnose_trace(trace, load_checker(STEPS), 100)
    assert [point.step for point in found.points] == [1, 10]
    for point, steps in ((found.whole, (1, 10)), (found.points[0], (1,)), (found.points[1], (10,))):
        for kind in ("grpo", "ep_grpo"):
            of_kind = getattr(point, kind)
            shares = {name: getattr(of_kind, name).value for name in ("right_punished", "wrong_rewarded")}
            assert shares == pytest.approx(expected_shares(steps, kind))
        assert point.equal_groups.value == 0.5
    # Right steps of failed responses: 2 + 1 in the mixed group, 2 + 2 + 1 + 2 in the other.
    plain = found.points[0].grpo
    assert plain.right_punished.value == pytest.approx(3 / 10)
    assert plain.wrong_in_winning.value == pytest.approx(2 / 6)
    assert plain.counts.responses == sum(map(len, GROUPS))
    final = found.whole.ep_grpo
    assert final.right_punished.value != plain.right_punished.value, "or the test says nothing"


def test_concentration_of_a_trace_is_that_of_its_valid_tokens(trace):
    found = diagnose_trace(trace, None, 100)
    result, entropy, _ = traced_batch(10)
    expected = concentration(entropy[result.bucket >= 0].tolist())
    assert found.points[1].concentration.tokens == expected.tokens
    assert found.points[1].concentration.top_share == pytest.approx(expected.top_share, rel=1e-4)
    assert found.whole.grpo is None


def test_a_trace_without_texts_has_no_steps(tmp_path):
    folder = write_trace(tmp_path, with_texts=False)
    assert diagnose_trace(folder, None, 100).whole.concentration is not None
    with pytest.raises(EvaluationError, match="token ids only"):
        diagnose_trace(folder, load_checker(STEPS), 100)


def test_labels_serve_a_trace_as_well(trace, tmp_path):
    check = load_checker(STEPS)
    lines = {}
    for file in read_trace(trace):
        for group in file.groups:
            for response in group["responses"]:
                text = "".join(response["tokens"]).removesuffix("<|im_end|>")
                steps = [{"start": s.start, "end": s.end, "right": s.right} for s in check(group["prompt"], text)]
                lines[text] = json.dumps({"prompt": group["prompt"], "response": text, "steps": steps})
    labels = tmp_path / "labels.jsonl"
    labels.write_text("\n".join(lines.values()))
    by_label = diagnose_trace(trace, label_source(read_label_lines(labels), labels), 100)
    assert by_label == diagnose_trace(trace, check, 100)


def test_a_trace_by_the_command(trace, tmp_path):
    result = diagnose("--trace", trace, "--steps", STEPS, "--out", tmp_path, "--resamples", 100)
    assert result.exit_code == 0, result.output
    text = one_line(result.output)
    for words in ("plain GRPO", "EP-GRPO", "51.5 %", "step 1", "step 10", "a step is punished if its advantage"):
        assert words in text
    assert "better" not in text
    found = json.loads((tmp_path / "diagnosis.json").read_text())
    assert found["trace"]["whole"]["grpo"]["right_punished"]["value"] == pytest.approx(3 / 10)
    assert found["model"] is None
    assert (tmp_path / "diagnosis.png").stat().st_size > 1000
    assert not (tmp_path / "samples.jsonl").exists()


def test_no_trace(tmp_path):
    result = diagnose("--trace", tmp_path)
    assert result.exit_code == 1
    assert "no trace in this folder" in one_line(result.output)


@given(st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=1, max_size=40))
def test_zero_variance_against_brute_force(shares):
    found = zero_variance(range(1, len(shares) + 1), shares)
    fifth = max(1, int(0.2 * len(shares) + 1e-9))
    for phase, part in ((found.whole, shares), (found.start, shares[:fifth]), (found.end, shares[-fifth:])):
        assert phase.steps == len(part)
        assert phase.groups == pytest.approx(sum(part) / len(part))
        assert phase.collapsed_steps == pytest.approx(part.count(1.0) / len(part))
    assert (found.whole.first, found.whole.last, found.end.last) == (1, len(shares), len(shares))


def write_log(folder, shares, metric=ZERO_VARIANCE):
    folder.mkdir()
    lines = [json.dumps({"step": step, "data": {metric: share}}) for step, share in enumerate(shares, 1)]
    (folder / "metrics-000.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def test_runs_by_the_command(tmp_path):
    ours = write_log(tmp_path / "ours", [0.0, 0.5, 0.5, 1.0, 1.0])
    plain = write_log(tmp_path / "plain", [0.3] * 4, "critic/score/mean")
    result = diagnose("--run", ours, "--run", f"grpo={plain}", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    text = one_line(result.output)
    assert "58.77 %" in text and "60.0 %" in text and "40.0 %" in text
    assert "grpo: --run" in text and "+algorithm.ep_grpo.gate=false" in text
    found = json.loads((tmp_path / "out" / "diagnosis.json").read_text())
    assert found["runs"]["ours"]["whole"] == {
        "first": 1,
        "last": 5,
        "steps": 5,
        "groups": pytest.approx(0.6),
        "collapsed_steps": pytest.approx(0.4),
    }
    assert list(found["missing"]) == ["grpo"]
    assert (tmp_path / "out" / "diagnosis.png").exists()


def test_runs_that_say_nothing(tmp_path):
    plain = write_log(tmp_path / "plain", [0.3], "critic/score/mean")
    result = diagnose("--run", plain)
    assert result.exit_code == 1 and "does not log it" in one_line(result.output)
    assert "no metrics in" in one_line(diagnose("--run", tmp_path).output)
    two = write_log(tmp_path / "two", [2.0])
    assert "has to be from 0 to 1" in one_line(diagnose("--run", two).output)
    assert "two runs are called plain" in one_line(diagnose("--run", plain, "--run", f"plain={two}").output)
