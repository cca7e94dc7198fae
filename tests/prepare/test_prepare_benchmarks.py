# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: their columns, faults and checks. The answers are those of the whole published sets."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from published import SAMPLES, made_up, published_answers, published_rows, write_jsonl, write_parquet

from epgrpo_verl.data import BENCHMARKS, INSTRUCTION, SOURCES, PrepareError, files
from epgrpo_verl.data.prepare import Options, prepare
from epgrpo_verl.data.problems import read_problem
from epgrpo_verl.grading import compute_score


def prepare_rows(name, content, tmp_path, write=write_jsonl, **options):
    suffix = "parquet" if write is write_parquet else "jsonl"
    file = write(tmp_path / f"published.{suffix}", content)
    options.setdefault("sha256", files.sha256_of(file))
    return prepare(SOURCES[name], Options(out=tmp_path / "out", file=file, **options))


def written(report):
    return pq.read_table(report.path).to_pylist()


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_is_written_whole_and_in_order(name, tmp_path):
    write = write_parquet if SOURCES[name].file.endswith("parquet") else write_jsonl
    report = prepare_rows(name, published_rows(name), tmp_path, write)
    rows = written(report)
    assert len(rows) == report.rows_out == SOURCES[name].rows
    assert {row["data_source"] for row in rows} == {name}
    assert [row["extra_info"]["index"] for row in rows] == list(range(len(rows)))
    assert rows[3]["prompt"] == [{"role": "user", "content": f"{made_up(name, 3)}\n\n{INSTRUCTION}"}]
    golds = [row["reward_model"]["ground_truth"] for row in rows]
    expected = published_answers(name)
    if name in ("aime24", "amc23"):
        expected = [str(int(answer)) for answer in expected]
    if name == "minerva":
        golds[126] = expected[126]
    assert golds == expected


def test_leading_zeros_floats_and_boxes_are_repaired_and_listed(tmp_path):
    aime = prepare_rows("aime24", published_rows("aime24"), tmp_path)
    assert {(p.id, p.golds) for p in aime.repaired} >= {("7", ("25",))}
    manifest = json.loads((tmp_path / "out" / "aime24.manifest.json").read_text())
    assert {"id": "7", "index": 7, "repairs": ["answer 025 written as 25"]} in manifest["repaired"]
    assert len(prepare_rows("amc23", published_rows("amc23"), tmp_path).repaired) == 40


def test_the_wrong_minerva_key_is_mended_and_only_that(tmp_path):
    report = prepare_rows("minerva", published_rows("minerva"), tmp_path)
    assert [problem.index for problem in report.repaired] == [126]
    truth = written(report)[126]["reward_model"]["ground_truth"]
    for answer, score in [
        (r"(t - \frac{1}{2} \sin{2t}) u(t)", 1.0),
        (r"t - \frac{1}{2}\sin(2t)", 1.0),
        (r"(t + \frac{1}{2} \sin{2t}) u(t)", 0.0),
    ]:
        assert compute_score("minerva", rf"\boxed{{{answer}}}", truth)["score"] == score


def test_control_characters_in_aime25_become_the_commands_they_were(tmp_path):
    rows = published_rows("aime25")
    rows[18]["problem"] = "Find $\frac{m}{n}$ in $\triangle ABC$\tas usual.\nThe end."
    report = prepare_rows("aime25", rows, tmp_path)
    text = written(report)[18]["extra_info"]["problem"]
    assert text == "Find $\\frac{m}{n}$ in $\\triangle ABC$\tas usual.\nThe end."
    assert report.repaired[0].repairs == ["2 control character(s) turned back into LaTeX commands"]
    rows[19]["problem"] = "Some \x0cunknown thing"
    with pytest.raises(PrepareError, match=r"row 19 \(19\): unexpected control character"):
        prepare_rows("aime25", rows, tmp_path)


def test_tabs_elsewhere_are_left_alone():
    row = next(
        row for row in map(json.loads, (SAMPLES / "math500.jsonl").read_text().splitlines()) if "\t" in row["problem"]
    )
    assert read_problem(SOURCES["math500"], 0, row).text == row["problem"]


def test_gsm8k_answers_stand_behind_hashes():
    row = {"question": "How many?", "answer": "He had <<48/2=24>>24 apples.\n#### 1,024"}
    assert read_problem(SOURCES["gsm8k"], 0, row).golds == ("1,024",)
    with pytest.raises(PrepareError, match="no number behind ####"):
        read_problem(SOURCES["gsm8k"], 0, {"question": "How many?", "answer": "I do not know"})


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("math500", lambda rows: rows[7].update(answer="42"), "the 500 answers are not the known ones"),
        ("math500", lambda rows: rows.pop(), r"has 499 rows, math500 has 500.*--rows 499"),
        (
            "math500",
            lambda rows: rows[2].pop("problem"),
            r"row 2: no column 'problem' or 'question'; there are: answer",
        ),
        ("math500", lambda rows: rows[2].update(problem="  "), "row 2: column 'problem' is empty"),
        ("minerva", lambda rows: rows[9].update(answer=None), "row 9: column 'answer' is empty"),
        ("aime24", lambda rows: rows[0].update(solution=r"\boxed{1204}"), r"'1204' is no AIME answer"),
        ("aime24", lambda rows: rows[0].update(solution=r"\boxed{12"), r"no answer in .*unterminated_box"),
        ("amc23", lambda rows: rows[0].update(answer=27.5), r"'27.5' is no integer"),
        ("aime25", lambda rows: rows[3].update(answer="118"), "the 30 answers are not the known ones"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_written(name, change, message, tmp_path):
    rows = published_rows(name)
    change(rows)
    with pytest.raises(PrepareError, match=message):
        prepare_rows(name, rows, tmp_path)
    assert not (tmp_path / "out").exists()


def test_an_answer_that_cannot_be_graded_is_an_error(tmp_path):
    rows = published_rows("math500")[:3]
    rows[1]["answer"] = "Anya needs to climb nine more steps before lunch"
    with pytest.raises(PrepareError, match=r"no row may be dropped, but 1 cannot be used: test/1.json.*prose"):
        prepare_rows("math500", rows, tmp_path, rows=3)


def test_a_checksum_must_match_and_the_one_met_is_named(tmp_path):
    file = write_jsonl(tmp_path / "math500.jsonl", published_rows("math500"))
    met = files.sha256_of(file)
    with pytest.raises(PrepareError, match=f"has the sha256 {met}, not {SOURCES['math500'].sha256}.*--sha256 {met}"):
        prepare(SOURCES["math500"], Options(out=tmp_path / "out", file=file))
    assert not (tmp_path / "out").exists()
    report = prepare(SOURCES["math500"], Options(out=tmp_path / "out", file=file, sha256=met.upper()))
    manifest = json.loads((tmp_path / "out" / "math500.manifest.json").read_text())
    assert manifest["source"]["sha256"] == met
    assert report.notes == []


def test_without_a_known_checksum_the_one_met_is_recorded_and_said(tmp_path):
    file = write_jsonl(tmp_path / "minerva.jsonl", published_rows("minerva"))
    report = prepare(SOURCES["minerva"], Options(out=tmp_path / "out", file=file))
    assert files.sha256_of(file) in report.notes[0]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"problem": "x", "answer": "1"}\n{"problem": \n', "line 2: Expecting value"),
        ("a.jsonl", "[1]\n", "line 1: not a JSON object"),
        ("a.json", '{"problem": "x"}', "not a JSON list of objects"),
        ("a.parquet", "no parquet", "cannot be read as parquet"),
        ("a.csv", "problem,answer\n", "neither .parquet, .jsonl nor .json"),
    ],
)
def test_unreadable_files(name, content, message, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(PrepareError, match=message):
        files.read_rows(tmp_path / name)
    with pytest.raises(PrepareError, match="there is no file"):
        files.read_rows(tmp_path / "missing.jsonl")


def test_a_failure_while_writing_leaves_the_earlier_files_as_they_were(tmp_path, monkeypatch):
    rows = published_rows("aime25")
    report = prepare_rows("aime25", rows, tmp_path)
    before = {path.name: path.read_bytes() for path in report.path.parent.iterdir()}
    rows[0]["problem"] += " Changed."

    def fail(table, path):
        path.write_bytes(b"half a file")
        raise OSError("disk full")

    monkeypatch.setattr(pq, "write_table", fail)
    with pytest.raises(OSError, match="disk full"):
        prepare_rows("aime25", rows, tmp_path)
    assert {path.name: path.read_bytes() for path in report.path.parent.iterdir()} == before


def test_the_same_file_gives_the_same_manifest_bytes(tmp_path):
    texts = []
    for _ in range(2):
        report = prepare_rows("aime24", published_rows("aime24"), tmp_path)
        texts.append((report.path.parent / "aime24.manifest.json").read_bytes())
    assert texts[0] == texts[1]
