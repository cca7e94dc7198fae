# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Training data: every rule with a planted row that breaks it."""

from __future__ import annotations

import json
from collections import Counter

import pyarrow.parquet as pq
import pytest
from published import made_up, published_rows, skywork_row, write_jsonl, write_parquet, write_tokenizer

from epgrpo_verl.data import BENCHMARKS, SOURCES, PrepareError, files, filters
from epgrpo_verl.data.prepare import Options, prepare
from epgrpo_verl.data.prompt import token_counter


@pytest.fixture(scope="module")
def benchmarks(tmp_path_factory):
    """A folder with the five prepared benchmarks; MATH500's problem 5 is a long one."""
    folder = tmp_path_factory.mktemp("benchmarks")
    for name in BENCHMARKS:
        rows = published_rows(name)
        if name == "math500":
            rows[5]["problem"] = LONG_BENCHMARK_PROBLEM
        file = write_jsonl(folder / f"{name}.jsonl", rows)
        prepare(SOURCES[name], Options(out=folder, file=file, sha256=files.sha256_of(file)))
    return folder


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer"))


LONG_BENCHMARK_PROBLEM = (
    r"A merchant buys $\dfrac{3}{4}$ of a barrel of apples on Monday and sells a third of them on Tuesday "
    "before the rain spoils seven of those that are left over"
)
ITS_WORDS_IN_A_TRAINING_PROBLEM = (
    r"Once more: a merchant buys $\frac{3}{4}$ of a barrel of apples on Monday and sells a third. How many?"
)

PLANTED = [
    # text, golds, difficulty, rule that drops it (None: kept)
    ("What is one and one?", ["2"], 1, None),
    ("What is one and two?", ["3"], 15, None),
    ("What is one and three?", ["4"], 0, "difficulty"),
    ("What is one and four?", ["5"], 16, "difficulty"),
    ("What is one and five?", ["6", "7"], 8, "not one answer"),
    ("What is one and six?", [], 8, "not one answer"),
    ("What is one and seven?", ["eight, as everybody who counts can see"], 8, "answer not gradable"),
    (r"What is one and eight?", [r"\frac{9}{"], 8, "answer not gradable"),
    (r"What is $\dfrac{1}{2}$?", ["0.5"], 8, None),
    (r"what is $\frac{1}{2}$ ?", ["0.5"], 8, "duplicate problem"),
    ("What is x?", ["3"], 8, "conflicting answers"),
    ("What is x ?", ["4"], 8, "conflicting answers"),
    (made_up("aime24", 4), ["1"], 8, "in a benchmark"),
    (ITS_WORDS_IN_A_TRAINING_PROBLEM, ["1"], 8, "in a benchmark"),
    ("A merchant buys a barrel of apples on Monday. How many?", ["12"], 8, None),
    ("word " * 40, ["1"], 8, "prompt too long"),
]


def skywork_file(tmp_path):
    rows = [skywork_row(1000 + i, text, golds, level) for i, (text, golds, level, _) in enumerate(PLANTED)]
    return write_parquet(tmp_path / "skywork.parquet", rows)


def prepare_skywork(tmp_path, benchmarks, tokenizer, **options):
    options.setdefault("rows", len(PLANTED))
    options.setdefault("max_prompt_tokens", 50)
    return prepare(
        SOURCES["skywork"],
        Options(
            out=tmp_path / "out", file=skywork_file(tmp_path), benchmarks=benchmarks, model=str(tokenizer), **options
        ),
    )


def test_each_rule_drops_what_breaks_it_and_nothing_else(tmp_path, benchmarks, tokenizer):
    report = prepare_skywork(tmp_path, benchmarks, tokenizer)
    expected = Counter(rule for *_, rule in PLANTED if rule is not None)
    assert report.dropped == expected
    lines = (tmp_path / "out" / "skywork.dropped.jsonl").read_text().splitlines()
    dropped = {int(row["id"]): row for row in map(json.loads, lines)}
    assert {i: row["rule"] for i, row in dropped.items()} == {
        1000 + i: rule for i, (*_, rule) in enumerate(PLANTED) if rule is not None
    }
    assert dropped[1010]["detail"] == "1010: 3, 1011: 4"
    assert dropped[1012]["detail"] == "same problem as aime24 4"
    assert "a merchant buys frac 3 4 of a barrel" in dropped[1013]["detail"]
    assert "math500 test/5.json" in dropped[1013]["detail"]
    rows = pq.read_table(report.path).to_pylist()
    kept = {1000 + i: golds[0] for i, (_, golds, _, rule) in enumerate(PLANTED) if rule is None}
    assert {int(row["extra_info"]["id"]): row["reward_model"]["ground_truth"] for row in rows} == kept
    assert {row["data_source"] for row in rows} == {"skywork"}


def test_a_prompt_of_exactly_the_limit_stays_and_one_more_token_goes(tmp_path, benchmarks, tokenizer):
    text = PLANTED[0][0]
    (length,) = token_counter(str(tokenizer))([text])
    # <|im_start|> user ... <|im_end|> <|im_start|> assistant: 5 tokens around 5 words and the 12 of the instruction.
    assert length == 5 + len(text.split()) + 12
    assert "1000" in _ids(prepare_skywork(tmp_path, benchmarks, tokenizer, max_prompt_tokens=length))
    assert "1000" not in _ids(prepare_skywork(tmp_path, benchmarks, tokenizer, max_prompt_tokens=length - 1))


def _ids(report):
    return [row["extra_info"]["id"] for row in pq.read_table(report.path).to_pylist()]


def test_the_shuffle_is_the_seeds_and_the_limit_cuts_behind_it(tmp_path, benchmarks, tokenizer):
    whole = _ids(prepare_skywork(tmp_path, benchmarks, tokenizer))
    assert _ids(prepare_skywork(tmp_path, benchmarks, tokenizer)) == whole
    assert _ids(prepare_skywork(tmp_path, benchmarks, tokenizer, seed=1)) != whole
    report = prepare_skywork(tmp_path, benchmarks, tokenizer, limit=2)
    assert _ids(report) == whole[:2]
    assert report.dropped["beyond the limit"] == len(whole) - 2
    manifest = json.loads((tmp_path / "out" / "skywork.manifest.json").read_text())
    assert manifest["ids"] == whole[:2]
    assert manifest["settings"]["seed"] == 42
    assert manifest["settings"]["difficulty"] == [1, 15]
    assert manifest["rows_in"] == len(PLANTED) == manifest["rows_out"] + sum(manifest["dropped"].values())


def test_fewer_than_asked_for_is_said(tmp_path, benchmarks, tokenizer):
    notes = prepare_skywork(tmp_path, benchmarks, tokenizer, limit=8000).notes
    assert any("only 4 problems are left, fewer than the 8000 asked for" in note for note in notes)


def test_the_benchmarks_must_be_there_unless_told_otherwise(tmp_path, tokenizer):
    with pytest.raises(PrepareError, match=r"math500, amc23, minerva, aime24, aime25 are not in .*--no-decontaminate"):
        prepare_skywork(tmp_path, tmp_path, tokenizer)
    assert not (tmp_path / "out").exists()
    report = prepare_skywork(tmp_path, tmp_path, tokenizer, decontaminate=False)
    assert "in a benchmark" not in report.dropped


def test_a_tokenizer_that_is_not_there_is_named(tmp_path, benchmarks):
    with pytest.raises(PrepareError, match="the tokenizer of --model .*missing could not be loaded"):
        prepare_skywork(tmp_path, benchmarks, tmp_path / "missing")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda row: row.pop("prompt"), r"row 0: no prompt\[0\].content"),
        (lambda row: row["extra_info"].pop("model_difficulty"), "model_difficulty.DeepSeek-R1-Distill-Qwen-7B"),
        (lambda row: row["reward_model"].update(ground_truth="15625"), "no JSON list of strings: '15625'"),
    ],
)
def test_a_row_that_is_not_skyworks_is_named(change, message, tmp_path, benchmarks, tokenizer):
    row = skywork_row(0, "What?", ["1"])
    change(row)
    file = write_jsonl(tmp_path / "skywork.jsonl", [row])
    options = Options(out=tmp_path / "out", file=file, rows=1, benchmarks=benchmarks, model=str(tokenizer))
    with pytest.raises(PrepareError, match=message):
        prepare(SOURCES["skywork"], options)


def test_words_ignore_layout_but_not_numbers():
    assert filters.words(r"Find \left( \dfrac{1}{2} \right).") == filters.words(r"find (\frac{1}{2})")
    assert filters.words("x = 12") != filters.words("x = 13")


def test_verl_reads_training_and_validation_files_together(tmp_path, benchmarks, tokenizer):
    from omegaconf import OmegaConf
    from transformers import AutoTokenizer
    from verl.utils.dataset.rl_dataset import RLHFDataset

    train = prepare_skywork(tmp_path, benchmarks, tokenizer).path
    config = OmegaConf.create({"max_prompt_length": 64, "filter_overlong_prompts": True, "cache_dir": str(tmp_path)})
    paths = [str(benchmarks / f"{name}.parquet") for name in BENCHMARKS]
    data = RLHFDataset([str(train), *paths], AutoTokenizer.from_pretrained(tokenizer), config)
    # All prompts are short, so verl's own filter drops none.
    assert len(data) == 4 + sum(SOURCES[name].rows for name in BENCHMARKS)
    row = data[4]
    assert row["data_source"] == "math500"
    assert row["reward_model"]["ground_truth"] == published_rows("math500")[0]["answer"]
