# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""``epgrpo evaluate`` on the transformers backend: what it stores, that it goes on, and what it refuses to mix."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from evaluation_assets import (
    GRADER,
    MAX_TOKENS,
    evaluate,
    one_line,
    save_adapter,
    save_problems,
    stored,
)
from evaluation_graders import a_third_is_right
from matplotlib.image import imread
from transformers import AutoModelForCausalLM, AutoTokenizer

from epgrpo_verl.data.files import sha256_of
from epgrpo_verl.evaluation import load_run, summarize
from epgrpo_verl.evaluation.command import PLOT, SUMMARY
from epgrpo_verl.evaluation.statistics import pass_at_k
from epgrpo_verl.evaluation.store import PROBLEMS, SAMPLES, SETTINGS


def right_by_problem(folder: Path) -> dict[str, dict[str, int]]:
    """Set to problem to the number of right samples, counted in the file."""
    counts: dict[str, dict[str, int]] = {}
    for (name, problem, _), sample in stored(folder).items():
        part = counts.setdefault(name, {})
        part[problem] = part.get(problem, 0) + (sample["score"] == 1)
    return counts


def test_every_sample_is_stored_with_what_it_takes_to_check_it(finished):
    samples = stored(finished)
    assert len(samples) == 4 * (6 + 4)
    assert {key[0] for key in samples} == {"sums", "more"}
    assert len({sample["seed"] for sample in samples.values()}) == len(samples)
    assert len({sample["response"] for sample in samples.values()}) > 30
    for sample in samples.values():
        assert sample["score"] == a_third_is_right("", sample["response"], "")["score"]
        assert 1 <= sample["tokens"] <= MAX_TOKENS
        if sample["finish_reason"] == "length":
            assert sample["tokens"] == MAX_TOKENS
    assert {sample["finish_reason"] for sample in samples.values()} == {"stop", "length"}


def test_the_summary_is_what_the_samples_give(finished):
    summary = json.loads((finished / SUMMARY).read_text())
    counts = right_by_problem(finished)
    samples = stored(finished)
    averages = []
    for name, problems in counts.items():
        numbers = summary["sets"][name]
        averages.append(sum(problems.values()) / (4 * len(problems)))
        assert numbers["avg@n"]["value"] == pytest.approx(averages[-1])
        for k in range(1, 5):
            expected = sum(pass_at_k(4, right, k) for right in problems.values()) / len(problems)
            assert numbers["pass@k"][str(k)]["value"] == pytest.approx(expected)
        part = [sample for key, sample in samples.items() if key[0] == name]
        assert numbers["truncated"] == pytest.approx(sum(s["finish_reason"] == "length" for s in part) / len(part))
        assert numbers["tokens"]["mean"] == pytest.approx(sum(s["tokens"] for s in part) / len(part))
        assert (numbers["problems"], numbers["n"], numbers["grader_errors"]) == (len(problems), 4, 0)
        assert numbers["no_box"] is None, "this grader looks for no box"
    assert summary["average"]["avg@n"]["value"] == pytest.approx(sum(averages) / 2)
    assert 0 < summary["average"]["avg@n"]["value"] < 1
    settings = summary["settings"]
    assert (settings["n"], settings["temperature"], settings["top_p"], settings["max_tokens"]) == ("4", 1.0, 1.0, 12)
    assert "transformers" in settings["versions"] and "sha256" in settings["chat template"]


def test_greedy_responses_are_those_of_the_model_alone(model, data, tmp_path):
    result = evaluate(
        *("--model", model, "--data", data[0], "--out", tmp_path / "run", "-n", 1, "--temperature", 0),
        *("--backend", "hf", "--max-tokens", MAX_TOKENS, "--grader", GRADER),
    )
    assert result.exit_code == 0, result.output
    check_greedy(tmp_path / "run", AutoModelForCausalLM.from_pretrained(model), AutoTokenizer.from_pretrained(model))


def check_greedy(folder, network, tokenizer):
    for (_, problem, _), sample in stored(folder).items():
        number = problem.split("-")[1]
        chat = [{"role": "user", "content": f"{number}+{number}="}]
        prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt")["input_ids"]
        with torch.inference_mode():
            output = network.generate(prompt, do_sample=False, max_new_tokens=MAX_TOKENS)
        tokens = output[0, prompt.shape[1] :]
        assert sample["response"] == tokenizer.decode(tokens, skip_special_tokens=True)
        assert sample["tokens"] == len(tokens)


def test_the_adapter_in_a_megatron_checkpoint_is_put_on_the_model(model, data, tmp_path):
    from peft import PeftModel

    adapter = save_adapter(tmp_path / "global_step_7" / "actor" / "model" / "huggingface" / "adapter", model)
    result = evaluate(
        *("--model", model, "--lora", tmp_path / "global_step_7", "--data", data[0], "--out", tmp_path / "run"),
        *("-n", 1, "--temperature", 0, "--backend", "hf", "--max-tokens", MAX_TOKENS, "--grader", GRADER),
    )
    assert result.exit_code == 0, result.output
    network = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(model), adapter)
    check_greedy(tmp_path / "run", network, AutoTokenizer.from_pretrained(model))
    base = evaluate(
        *("--model", model, "--data", data[0], "--out", tmp_path / "base"),
        *("-n", 1, "--temperature", 0, "--backend", "hf", "--max-tokens", MAX_TOKENS, "--grader", GRADER),
    )
    assert base.exit_code == 0
    with_adapter, without = ([s["response"] for s in stored(tmp_path / run).values()] for run in ("run", "base"))
    assert with_adapter != without


def test_a_run_that_was_cut_off_in_the_middle_of_a_line_ends_as_if_it_had_not_been(run, finished, tmp_path):
    assert run(tmp_path / "run").exit_code == 0
    file = tmp_path / "run" / SAMPLES
    content = file.read_bytes()
    left = content[: len(content) * 2 // 3 + 5]
    assert not left.endswith(b"\n")
    file.write_bytes(left)
    there = left.count(b"\n")
    result = run(tmp_path / "run")
    assert result.exit_code == 0, result.output
    assert f"{there} of 40 are there" in result.stderr
    assert stored(tmp_path / "run") == stored(finished)
    assert (tmp_path / "run" / SUMMARY).read_text() == (finished / SUMMARY).read_text().replace(
        '"run": "finished"', '"run": "run"'
    )


def test_a_complete_run_is_only_shown_again(run, finished, tmp_path):
    assert run(tmp_path / "run").exit_code == 0
    before = (tmp_path / "run" / SAMPLES).read_bytes()
    result = run(tmp_path / "run")
    assert result.exit_code == 0
    assert "40 of 40 are there" in result.stderr
    assert (tmp_path / "run" / SAMPLES).read_bytes() == before


def test_more_samples_and_more_sets_keep_what_is_there(model, data, finished, tmp_path):
    settings = ("--backend", "hf", "--max-tokens", MAX_TOKENS, "--grader", GRADER, "--model", model)
    assert evaluate("--data", data[0], "--out", tmp_path / "run", "-n", 2, *settings).exit_code == 0
    first = stored(tmp_path / "run")
    assert len(first) == 12
    result = evaluate("--data", data[0], data[1], "--out", tmp_path / "run", "-n", 4, *settings)
    assert result.exit_code == 0, result.output
    assert "12 of 40 are there" in result.stderr
    assert stored(tmp_path / "run") == stored(finished)
    fewer = evaluate("--data", data[1], "--out", tmp_path / "run", "-n", 3, *settings)
    assert fewer.exit_code == 0
    summary = json.loads((tmp_path / "run" / SUMMARY).read_text())
    assert (list(summary["sets"]), summary["sets"]["more"]["samples"]) == (["more"], 12)
    # each set keeps the n of its last start
    assert {name: numbers.n for name, numbers in summarize(load_run(tmp_path / "run")).sets.items()} == {
        "sums": 4,
        "more": 3,
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--temperature", 0.6), "temperature 1.0, now 0.6"),
        (("--max-tokens", 8), "max_tokens 12, now 8"),
        (("--seed", 1), "seed 42, now 1"),
        (("--top-p", 0.9, "--top-k", 5), "top_p 1.0, now 0.9; top_k -1, now 5"),
        (("--dtype", "bfloat16"), "dtype auto, now bfloat16"),
        (("--limit", 3), "the problems of sums are others"),
        (("--grader", "epgrpo_verl.quickstart.task:compute_score"), "grader evaluation_graders:a_third_is_right, now"),
    ],
)
def test_other_settings_are_named_and_refused(run, finished, tmp_path, change, message):
    folder = tmp_path / "run"
    folder.mkdir()
    for file in finished.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    result = run(folder, *change)
    assert result.exit_code == 1
    assert message in one_line(result.stderr) and "never mixed" in one_line(result.stderr)
    assert (folder / SAMPLES).read_bytes() == (finished / SAMPLES).read_bytes()
    assert (folder / SETTINGS).read_bytes() == (finished / SETTINGS).read_bytes()


def test_another_model_or_adapter_in_the_same_place_is_refused(data, tmp_path):
    from evaluation_assets import save_model

    model = save_model(tmp_path / "model")
    call = ("--data", data[1], "--out", tmp_path / "run", "-n", 1, "--backend", "hf", "--max-tokens", 4)
    call = (*call, "--grader", GRADER, "--model", model)
    assert evaluate(*call).exit_code == 0
    network = AutoModelForCausalLM.from_pretrained(model)
    with torch.no_grad():
        network.lm_head.weight.add_(0.01)
    network.save_pretrained(model)
    changed = evaluate(*call)
    assert changed.exit_code == 1 and "other settings: model" in one_line(changed.stderr)
    adapter = save_adapter(tmp_path / "adapter", model)
    result = evaluate(*call, "--lora", adapter)
    assert result.exit_code == 1 and "lora none, now" in one_line(result.stderr)


def test_the_table_and_the_picture_show_the_run(run, tmp_path):
    result = run(tmp_path / "run", "-k", 2, "-k", 3)
    summary = json.loads((tmp_path / "run" / SUMMARY).read_text())
    for name in ("sums", "more"):
        numbers = summary["sets"][name]
        for estimate in (numbers["avg@n"], numbers["pass@k"]["2"], numbers["pass@k"]["3"]):
            assert f"{100 * estimate['value']:.2f}" in result.stdout
    assert all(word in result.stdout for word in ("avg@4", "pass@2", "pass@3", "average", "temperature", "versions"))
    assert max(map(len, result.stdout.splitlines())) <= 80
    picture = imread(tmp_path / "run" / PLOT)
    blue = (abs(picture[..., :3] - (0x1F / 255, 0x77 / 255, 0xB4 / 255)).max(axis=-1) < 0.02).sum()
    assert picture.shape[1] > 900 and blue > 500


def test_the_projects_grader_counts_missing_boxes_and_its_own_failures(model, tmp_path):
    """The tiny model's answers have no box; a run is graded again after its responses were given some."""
    data = save_problems(tmp_path / "sums.parquet", "sums", 3)
    call = ("--data", data, "--out", tmp_path / "run", "-n", 2, "--backend", "hf", "--model", model)
    result = evaluate(*call, "--max-tokens", MAX_TOKENS)
    assert result.exit_code == 0, result.output
    numbers = json.loads((tmp_path / "run" / SUMMARY).read_text())["sets"]["sums"]
    assert (numbers["no_box"], numbers["avg@n"]["value"]) == (1.0, 0.0)
    samples = list(stored(tmp_path / "run").values())
    assert {sample["reason"] for sample in samples} == {"no_box"}
    # sums-0 to sums-2 have the answers 0, 2 and 4
    answers = {"sums-0": r"\boxed{0}", "sums-1": r"\boxed{3}", "sums-2": r"\boxed{9^{9^{9^{9}}}+x}"}
    for sample in samples:
        sample["response"] = answers[sample["id"]]
    lines = "".join(json.dumps(sample) + "\n" for sample in samples)
    (tmp_path / "run" / SAMPLES).write_text(lines)
    again = evaluate("--out", tmp_path / "run", "--regrade", "--deadline", 0.5)
    assert again.exit_code == 0, again.output
    assert "2 scores changed" in again.stderr
    numbers = json.loads((tmp_path / "run" / SUMMARY).read_text())["sets"]["sums"]
    assert (numbers["no_box"], numbers["avg@n"]["value"]) == (0.0, pytest.approx(1 / 3))
    failed = [sample for sample in stored(tmp_path / "run").values() if sample["grader_error"]]
    assert [(sample["id"], sample["reason"]) for sample in failed] == [("sums-2", "timeout")] * 2
    assert numbers["grader_errors"] == 2
    assert "the grader failed on 2 samples" in one_line(again.stdout)
    assert evaluate(*call, "--max-tokens", MAX_TOKENS).exit_code == 0, "the run can still go on"


def test_the_files_of_prepare_are_what_is_evaluated(model, tmp_path):
    from published import published_rows, write_jsonl

    from epgrpo_verl.data import INSTRUCTION, SOURCES
    from epgrpo_verl.data.prepare import Options, prepare

    for name in ("aime24", "amc23"):
        file = write_jsonl(tmp_path / f"{name}.jsonl", published_rows(name))
        options = Options(out=tmp_path, file=file, sha256=sha256_of(file))
        prepare(SOURCES[name], options)
    result = evaluate(
        *("--model", model, "--data", tmp_path / "aime24.parquet", tmp_path / "amc23.parquet", "--limit", 2),
        *("--out", tmp_path / "run", "-n", 1, "--backend", "hf", "--max-tokens", 4),
    )
    assert result.exit_code == 0, result.output
    assert {key[0] for key in stored(tmp_path / "run")} == {"aime24", "amc23"} and len(stored(tmp_path / "run")) == 4
    problems = [json.loads(line) for line in (tmp_path / "run" / PROBLEMS).read_text().splitlines()]
    assert [problem["ground_truth"] for problem in problems[:2]] == ["204", "113"]
    assert all(INSTRUCTION in problem["prompt"] for problem in problems)


@pytest.mark.slow
def test_a_killed_process_leaves_a_run_that_goes_on(model, tmp_path):
    """kill -9 while samples are written, then half a line more: the second start ends with what one start gives."""
    data = save_problems(tmp_path / "sums.parquet", "sums", 24)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}

    def command(out: str) -> list[str]:
        arguments = ("--data", data, "--model", model, "--out", tmp_path / out, "-n", 6, "--batch-size", 4)
        more = ("--backend", "hf", "--max-tokens", 40, "--grader", GRADER)
        return [sys.executable, "-m", "epgrpo_verl.cli", "evaluate", *map(str, (*arguments, *more))]

    process = subprocess.Popen(command("killed"), env=environment, stderr=subprocess.DEVNULL)
    file = tmp_path / "killed" / SAMPLES
    deadline = time.monotonic() + 300
    while not (file.exists() and file.read_bytes().count(b"\n") > 10):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    there = file.read_bytes().count(b"\n")
    assert 10 < there < 144
    with file.open("ab") as stream:
        stream.write(b'{"set": "sums", "id": "su')
    second = subprocess.run(command("killed"), env=environment, capture_output=True, text=True, timeout=600)
    assert second.returncode == 0, second.stderr
    assert f"{there} of 144 are there" in second.stderr
    assert evaluate(*command("whole")[4:]).exit_code == 0
    assert stored(tmp_path / "killed") == stored(tmp_path / "whole")
