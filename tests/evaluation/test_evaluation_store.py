# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The file of samples: what a killed process may leave there, and what must not be there."""

from __future__ import annotations

import json

import pytest

from epgrpo_verl.evaluation.errors import EvaluationError
from epgrpo_verl.evaluation.store import SAMPLES, SETTINGS, Sample, Store


def sample(number: int, response: str = "so \\boxed{4}") -> Sample:
    return Sample("math", "p", number, 7, response, 5, "stop", 1.0, "4", "number", False)


def append(store: Store, *samples: Sample) -> None:
    with store.appending() as add:
        for item in samples:
            add(item)


def test_samples_come_back_as_they_were(tmp_path):
    store = Store(tmp_path)
    texts = ["\u2028 and \x85 and \n", "half a pair \ud800", 'quote " and \\', "", "\x00"]
    append(store, *(sample(number, text) for number, text in enumerate(texts)))
    assert [found.response for found in Store(tmp_path).samples().values()] == texts


def test_a_file_cut_off_anywhere_gives_its_whole_lines_and_goes_on(tmp_path):
    append(Store(tmp_path), sample(0), sample(1), sample(2))
    file = tmp_path / SAMPLES
    whole = file.read_bytes()
    ends = [index + 1 for index, byte in enumerate(whole) if byte == ord("\n")]
    for length in range(0, len(whole) + 1, 3):
        file.write_bytes(whole[:length])
        store = Store(tmp_path)
        left = sum(end <= length for end in ends)
        assert [key[2] for key in store.samples()] == list(range(left))
        append(store, *(sample(number) for number in range(left, 3)))
        assert file.read_bytes() == whole


def test_each_sample_is_in_the_file_before_the_next(tmp_path):
    with Store(tmp_path).appending() as add:
        for number in range(3):
            add(sample(number))
            assert len((tmp_path / SAMPLES).read_bytes().splitlines()) == number + 1


@pytest.mark.parametrize(
    ("line", "message"),
    [("{broken", "line 2 cannot be read"), ("[1]", "line 2 is no JSON object"), ('{"a": 1}', "line 2: no sample")],
)
def test_a_broken_line_in_the_middle_is_named(tmp_path, line, message):
    append(Store(tmp_path), sample(0))
    with (tmp_path / SAMPLES).open("a") as stream:
        stream.write(line + "\n")
    append(Store(tmp_path), sample(1))
    with pytest.raises(EvaluationError, match=message):
        Store(tmp_path).samples()


def test_a_sample_that_is_there_twice_is_refused(tmp_path):
    append(Store(tmp_path), sample(0), sample(0))
    with pytest.raises(EvaluationError, match="line 2.*twice"):
        Store(tmp_path).samples()


def test_samples_of_unknown_settings_or_format_are_refused(tmp_path):
    append(Store(tmp_path), sample(0))
    with pytest.raises(EvaluationError, match=f"samples but no {SETTINGS}"):
        Store(tmp_path).settings()
    (tmp_path / SETTINGS).write_text(json.dumps({"format": 99}))
    with pytest.raises(EvaluationError, match="format 99"):
        Store(tmp_path).settings()
    (tmp_path / SETTINGS).write_text("{")
    with pytest.raises(EvaluationError, match="cannot be read"):
        Store(tmp_path).settings()


def test_two_processes_do_not_write_to_one_folder(tmp_path):
    with Store(tmp_path).locked(), pytest.raises(EvaluationError, match="another epgrpo evaluate"):
        with Store(tmp_path).locked():
            pass
    with Store(tmp_path).locked():
        pass
