# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Mistakes end with one message that says what to change, the exit code 1, and no run."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pandas as pd
import pytest
from evaluation_assets import GRADER, evaluate, one_line, rows, save_adapter, save_problems

from epgrpo_verl.evaluation.model import end_of_turn, open_model


def message(result) -> str:
    assert result.exit_code == 1, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return one_line(result.stderr)


@pytest.fixture
def call(model, tmp_path):
    """Evaluates the model on a file; further arguments come last."""

    def call(data, *arguments):
        base = ("--model", model, "--out", tmp_path / "run", "-n", 2, "--backend", "hf", "--max-tokens", 8)
        return evaluate(*base, "--grader", GRADER, "--data", data, *arguments)

    yield call
    assert not list((tmp_path / "run").glob("samples*"))


@pytest.mark.parametrize("column", ["data_source", "prompt", "reward_model"])
def test_a_missing_column_is_named(call, tmp_path, column):
    pd.DataFrame(rows("sums", 2)).drop(columns=column).to_parquet(tmp_path / "data.parquet")
    found = message(call(tmp_path / "data.parquet"))
    assert f"no column '{column}'" in found and "extra_info" in found and "epgrpo prepare" in found


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"data_source": ""}, "row 1: data_source is empty"),
        ({"prompt": "text"}, "row 1: prompt is no list of chat messages"),
        ({"prompt": []}, "row 1: prompt is no list of chat messages"),
        ({"reward_model": {"ground_truth": " "}}, "row 1: reward_model.ground_truth is missing or empty"),
        ({"extra_info": {"id": "sums-0"}}, "already has a problem 'sums-0'"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(call, tmp_path, change, expected):
    first, second = rows("sums", 2)
    lines = "".join(json.dumps(row) + "\n" for row in (first, second | change))
    (tmp_path / "data.jsonl").write_text(lines)
    assert expected in message(call(tmp_path / "data.jsonl"))


def test_files_that_are_missing_empty_or_of_another_kind(call, tmp_path):
    assert "there is no file" in message(call(tmp_path / "none.parquet"))
    pd.DataFrame(rows("sums", 1)).head(0).to_parquet(tmp_path / "empty.parquet")
    assert "has no rows" in message(call(tmp_path / "empty.parquet"))
    (tmp_path / "data.txt").write_text("x")
    assert "neither .parquet" in message(call(tmp_path / "data.txt"))
    data = save_problems(tmp_path / "sums.parquet", "sums", 2)
    assert "already has a problem" in message(call(data, data))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("-k", 4), "pass@4 is not available from --n 2: give --n 4 or more"),
        (("--temperature", 0), "use --n 1 with it"),
        (("--temperature", -1), "--temperature -1.0 must be 0 or more"),
        (("--top-p", 0), "--top-p 0.0 must be above 0"),
        (("--top-k", 0), "--top-k 0 must be 1 or more, or -1"),
        (("--max-tokens", 0), "--max-tokens 0 must be 1 or more"),
        (("--max-tokens", 600), "Lower --max-tokens to"),
        (("--grader", "evaluation_graders"), "give MODULE:FUNCTION"),
        (("--grader", "evaluation_graders:nothing"), "has no attribute 'nothing'"),
        (("--grader", "no_such_module:f"), "No module named 'no_such_module'"),
        (("--rel-tol", 0.01), "--rel-tol is a setting of epgrpo_verl.grading:compute_score"),
        (("--lora", "nowhere"), "no adapter_config.json in it"),
        (("--dump", "x.jsonl"), "--dump reads what there is"),
        (("--regrade",), "there is no run in"),
    ],
)
def test_settings_that_cannot_be(call, tmp_path, arguments, expected):
    data = save_problems(tmp_path / "sums.parquet", "sums", 2)
    assert expected in message(call(data, *arguments))


def test_a_prompt_that_is_too_long_is_named_with_what_it_needs(call, tmp_path):
    long = rows("sums", 1)[0] | {"prompt": [{"role": "user", "content": "1+" * 300}]}
    (tmp_path / "data.jsonl").write_text(json.dumps(long) + "\n")
    found = message(call(tmp_path / "data.jsonl"))
    assert "problem sums-0: the prompt alone has 6" in found and "context is 512" in found


def test_options_that_are_missing(model, tmp_path):
    data = save_problems(tmp_path / "sums.parquet", "sums", 2)
    assert "--data is missing" in message(evaluate("--model", model, "--out", tmp_path / "run"))
    assert "--model is missing" in message(evaluate("--data", data, "--out", tmp_path / "run"))
    assert "--out is missing" in message(evaluate("--data", data, "--model", model))
    assert "--out is missing" in message(evaluate("--regrade"))


@pytest.fixture
def copied(model, tmp_path):
    return shutil.copytree(model, tmp_path / "copy")


def test_a_model_without_a_chat_template(call, copied, tmp_path):
    (copied / "chat_template.jinja").unlink()
    data = save_problems(tmp_path / "sums.parquet", "sums", 2)
    assert "has no chat template" in message(call(data, "--model", copied))


def test_folders_that_are_no_model(call, copied, model, tmp_path):
    data = save_problems(tmp_path / "sums.parquet", "sums", 2)
    (copied / "model.safetensors").unlink()
    assert "has no weights" in message(call(data, "--model", copied))
    (copied / "config.json").unlink()
    assert "has no config.json" in message(call(data, "--model", copied))
    assert "no such folder" in message(call(data, "--model", tmp_path / "nowhere"))
    shards = tmp_path / "global_step_5" / "actor"
    shards.mkdir(parents=True)
    (shards / "model_world_size_1_rank_0.pt").touch()
    for option in ("--model", "--lora"):
        assert f"epgrpo merge {shards.parent} --out" in message(call(data, option, shards.parent))
    adapter = save_adapter(tmp_path / "adapter", model)
    assert f"is a LoRA adapter: pass --model {model} --lora {adapter}" in message(call(data, "--model", adapter))


def test_a_model_that_cannot_be_downloaded(call, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    data = save_problems(tmp_path / "sums.parquet", "sums", 2)
    assert "--model nobody/nothing could not be downloaded" in message(call(data, "--model", "nobody/nothing"))


def test_an_adapter_that_would_change_nothing(call, model, tmp_path):
    """As some tools write it (verl-project/verl#4553)."""
    data = save_problems(tmp_path / "sums.parquet", "sums", 2)
    adapter = save_adapter(tmp_path / "adapter", model)
    config = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(json.dumps(config | {"lora_alpha": 0}))
    assert "lora_alpha is 0" in message(call(data, "--lora", adapter))


def test_an_adapter_beside_the_model_is_not_passed_over(call, copied, tmp_path):
    """As verl's own merger leaves it (verl-project/verl#7285)."""
    data = save_problems(tmp_path / "sums.parquet", "sums", 2)
    adapter = save_adapter(copied / "lora_adapter", copied)
    assert f"pass --lora {adapter} too" in message(call(data, "--model", copied))
    assert open_model(str(copied), str(copied)).adapter == adapter


def test_a_response_ends_where_the_template_ends_a_turn_too(copied, model):
    """Base models name another token as their end (QwenLM/Qwen3#927)."""
    tokenizer = open_model(str(model)).tokenizer
    end, pad = tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    assert end_of_turn(tokenizer) == end
    for name in ("config.json", "generation_config.json"):
        config = json.loads((copied / name).read_text())
        (copied / name).write_text(json.dumps(config | {"eos_token_id": pad}))
    tokenizer.eos_token = "<|endoftext|>"
    tokenizer.save_pretrained(copied)
    assert open_model(str(copied)).end_tokens == tuple(sorted((end, pad)))


def test_a_grader_that_gives_neither_right_nor_wrong_is_refused(call, tmp_path):
    data = save_problems(tmp_path / "sums.parquet", "sums", 2)
    result = call(data, "--grader", "evaluation_graders:minus_one")
    assert "gave the score -1.0; it has to be 1 for right and 0 for wrong" in message(result)
    shutil.rmtree(tmp_path / "run")


def test_a_grader_that_raises_counts_as_its_own_failure(model, tmp_path):
    data = save_problems(tmp_path / "sums.parquet", "sums", 2)
    result = evaluate(
        *("--model", model, "--data", data, "--out", tmp_path / "run", "-n", 2, "--backend", "hf"),
        *("--max-tokens", 4, "--grader", "evaluation_graders:broken"),
    )
    assert result.exit_code == 0, result.output
    numbers = json.loads((tmp_path / "run" / "summary.json").read_text())["sets"]["sums"]
    assert (numbers["grader_errors"], numbers["avg@n"]["value"]) == (4, 0.0)
    assert "the grader failed on 4 samples; they count as not right" in one_line(result.stdout)


@pytest.mark.parametrize("module", ["command", "compare_command"])
def test_the_help_needs_neither_torch_nor_transformers(module):
    code = (
        f"import sys; from typer.testing import CliRunner; from epgrpo_verl.evaluation.{module} import app;"
        "print(CliRunner().invoke(app, ['--help']).output);"
        "print([name for name in ('torch', 'transformers', 'vllm', 'verl') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert "Examples:" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"
