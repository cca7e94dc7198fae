# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The model: what is measured against what the model's own numbers say, and the command around it."""

from __future__ import annotations

import json
import math
from functools import partial

import pytest
import torch
from diagnose_assets import GRADER, MAX_TOKENS, STEPS, diagnose, one_line
from rich.console import Console
from transformers import AutoModelForCausalLM

from epgrpo_verl.diagnose.branches import make_branches, run_branches
from epgrpo_verl.diagnose.collect import Plan, collect, encode_problems, open_policy
from epgrpo_verl.diagnose.concentration import high_tokens
from epgrpo_verl.evaluation.backend import Engine, Sampling
from epgrpo_verl.evaluation.collect import Plan as EvaluationPlan
from epgrpo_verl.evaluation.collect import collect as evaluate
from epgrpo_verl.evaluation.grader import load_grader
from epgrpo_verl.evaluation.model import open_model
from epgrpo_verl.evaluation.problems import load_problems
from epgrpo_verl.evaluation.store import Store
from epgrpo_verl.evaluation.terminal import progress_bar
from epgrpo_verl.quickstart.task import find_steps


def read_samples(folder):
    return [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]


def read_diagnosis(folder):
    return json.loads((folder / "diagnosis.json").read_text())


@pytest.fixture(scope="module")
def bar():
    return partial(progress_bar, Console(quiet=True))


@pytest.fixture(scope="module")
def plan(data):
    return Plan(
        model=open_model(str(data / "model")),
        problems=load_problems([data / "test.parquet"])["chained_sums"],
        n=4,
        sampling=Sampling(temperature=0.8, max_tokens=MAX_TOKENS, seed=3),
        engine=Engine(device="cpu", batch_size=7),
        grader=load_grader(GRADER),
    )


@pytest.fixture(scope="module")
def policy(plan):
    return open_policy(plan)


@pytest.fixture(scope="module")
def samples(plan, policy, bar):
    return collect(plan, policy, encode_problems(plan), bar)


def test_entropies_are_those_of_one_prefix_at_a_time(plan, samples):
    network = AutoModelForCausalLM.from_pretrained(plan.model.folder).eval()
    for sample in samples[:: len(samples) // 4]:
        assert len(sample.look.entropies) == len(sample.tokens)
        for position in range(len(sample.tokens)):
            prefix = torch.tensor([sample.prompt_ids + sample.tokens[:position]])
            with torch.no_grad():
                logits = (network(prefix).logits[0, -1].double() / 0.8).tolist()
            total = sum(map(math.exp, logits))
            shares = [math.exp(value) / total for value in logits]
            entropy = -sum(share * math.log(share) for share in shares)
            assert sample.look.entropies[position] == pytest.approx(entropy, abs=1e-4)
            other = sample.look.replacements[position]
            assert other != sample.tokens[position]
            assert sample.look.replacement_probs[position] == pytest.approx(shares[other], abs=1e-5)


def test_the_samples_are_those_of_epgrpo_evaluate(plan, samples, tmp_path):
    evaluation = EvaluationPlan(
        tmp_path, plan.model, {"chained_sums": plan.problems}, 4, "hf", plan.sampling, plan.engine, plan.grader
    )
    evaluate(evaluation, lambda done, total: lambda more: None)
    stored = Store(tmp_path).samples()
    assert {sample.key: (sample.response, float(sample.won)) for sample in samples} == {
        key: (sample.response, sample.score) for key, sample in stored.items()
    }


def test_branches_differ_in_one_token_of_the_right_kind(samples):
    branches = make_branches(samples, seed=3)
    high = iter(high_tokens([entropy for sample in samples for entropy in sample.look.entropies]))
    marks = [[next(high) for _ in sample.tokens] for sample in samples]
    assert {branch.kind for branch in branches} == {"high", "low"}
    for control, other in zip(branches[::2], branches[1::2], strict=True):
        tokens = samples[control.sample].tokens
        assert (control.replaced, other.replaced) == (False, True)
        assert control.tokens == tokens[: control.position + 1]
        assert other.tokens[:-1] == control.tokens[:-1] and other.tokens[-1] != control.tokens[-1]
        assert (control.sample, control.position, control.seed) == (other.sample, other.position, other.seed)
        assert marks[control.sample][control.position] == (control.kind == "high")
    assert make_branches(samples, seed=3) == branches
    assert make_branches(samples, seed=4) != branches


def test_a_control_at_the_last_token_ends_as_the_sample_did(plan, policy, samples, bar):
    branches = make_branches(samples, plan.sampling.seed)
    trials = run_branches(plan, policy, samples, bar)
    assert len(trials) == len(branches) // 2
    last = [
        (trial, samples[branch.sample])
        for trial, branch in zip(trials, branches[::2], strict=True)
        if branch.position == len(samples[branch.sample].tokens) - 1
    ]
    assert last, "the seed makes some"
    assert all(trial.control == sample.won for trial, sample in last)


def test_a_diagnosis_is_the_same_the_second_time(run, finished, tmp_path):
    again = run(tmp_path / "again", "--steps", STEPS)
    assert again.exit_code == 0, again.output
    assert read_diagnosis(tmp_path / "again") == read_diagnosis(finished)
    assert read_samples(tmp_path / "again") == read_samples(finished)


def test_the_numbers_are_those_of_the_samples(finished):
    samples, found = read_samples(finished), read_diagnosis(finished)["model"]
    assert len(samples) == 5 * 4
    assert found["accuracy"]["value"] == pytest.approx(sum(sample["score"] for sample in samples) / 20)
    assert 0 < found["accuracy"]["value"] < 1, "the model was warmed up for mixed groups"
    groups = [samples[start : start + 4] for start in range(0, 20, 4)]
    mixed = [len({sample["score"] for sample in group}) == 2 for group in groups]
    assert found["equal_groups"]["value"] == pytest.approx(1 - sum(mixed) / 5)
    right = {True: 0, False: 0}
    for group, one in zip(groups, mixed, strict=True):
        for sample in group:
            steps = find_steps(sample["prompt"], sample["response"])
            assert [step["right"] for step in sample["steps"]] == [step.right for step in steps]
            right[one] += sum(step.right for step in steps) * (sample["score"] == 0)
    assert found["polarity"]["right_punished"]["value"] == pytest.approx(right[True] / (right[True] + right[False]))
    assert found["concentration"]["tokens"] == sum(sample["tokens"] for sample in samples)
    trials = found["perturbation"]["all"]
    assert trials["low"]["trials"] == 20 and 0 < trials["high"]["trials"] <= 20
    loss = trials["high"]
    assert loss["lost"]["value"] == pytest.approx(loss["control"]["value"] - loss["replaced"]["value"])
    assert loss["entropy"] > trials["low"]["entropy"]
    assert (finished / "diagnosis.png").read_bytes().startswith(b"\x89PNG")


def test_the_table_has_the_papers_figures(run, tmp_path):
    result = run(tmp_path / "out", "--steps", STEPS)
    text = one_line(result.output)
    for words in ("3.5 x", "51.5 %", "6.6 %", "entropy held by the top 20 % of tokens", "not measured here"):
        assert words in text


def test_labels_alone_give_the_same_polarity(finished, tmp_path):
    result = diagnose("--labels", finished / "samples.jsonl", "--out", tmp_path, "--resamples", 200)
    assert result.exit_code == 0, result.output
    assert read_diagnosis(tmp_path)["model"]["polarity"] == read_diagnosis(finished)["model"]["polarity"]


def test_labels_for_new_samples_must_be_there(run, finished, tmp_path):
    labels = tmp_path / "labels.jsonl"
    labels.write_text((finished / "samples.jsonl").read_text())
    result = run(tmp_path / "same", "--labels", labels, "--no-perturb")
    assert result.exit_code == 0, result.output
    assert read_diagnosis(tmp_path / "same")["model"]["polarity"] == read_diagnosis(finished)["model"]["polarity"]
    assert read_diagnosis(tmp_path / "same")["model"]["perturbation"] is None
    labels.write_text("\n".join((finished / "samples.jsonl").read_text().splitlines()[:1]) + "\n")
    result = run(tmp_path / "other", "--labels", labels)
    assert result.exit_code == 1
    assert "has no label for the response" in one_line(result.output)
    assert len(read_samples(tmp_path / "other")) == 20, "what was sampled is kept"
    assert all(sample["steps"] is None for sample in read_samples(tmp_path / "other"))


def test_labels_are_not_lost(run, finished, tmp_path):
    (tmp_path / "samples.jsonl").write_text((finished / "samples.jsonl").read_text())
    for arguments, message in (
        ((), "could hold labels: give another --out, or --overwrite"),
        (("--labels", tmp_path / "samples.jsonl", "--overwrite"), "would be overwritten"),
    ):
        result = run(tmp_path, *arguments)
        assert (result.exit_code, message in one_line(result.output)) == (1, True), result.output
    assert read_samples(tmp_path) == read_samples(finished)


def test_nothing_to_lose_leaves_the_rest(run, tmp_path):
    result = run(tmp_path / "out", "--grader", "diagnose_assets:nothing_is_right")
    assert result.exit_code == 0, result.output
    assert "none of the 20 responses is right" in one_line(result.output)
    found = read_diagnosis(tmp_path / "out")["model"]
    assert found["perturbation"] is None and "none of the 20" in found["why_no_perturbation"]
    assert found["concentration"]["top_share"] > 0.2
    assert found["equal_groups"]["value"] == 1


def test_a_failing_grader_is_counted(run, tmp_path):
    result = run(tmp_path / "out", "--grader", "diagnose_assets:fails_at_times", "--no-perturb")
    odd = sum(len(sample["response"]) % 2 for sample in read_samples(tmp_path / "out"))
    assert odd > 0
    assert f"the grader failed on {odd} responses" in one_line(result.output)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--steps", "diagnose_assets:overlapping"), "overlap"),
        (("--steps", "diagnose_assets:beyond_the_end"), "is not within the"),
        (("--steps", "nothing"), "give MODULE:FUNCTION"),
        (("--temperature", 0), "--temperature 0 has no entropy"),
        (("--steps", STEPS, "-n", 1), "-n 1 makes no group"),
        (("--max-tokens", 600), "Lower --max-tokens"),
        (("--limit", 1, "-n", 1, "--max-tokens", 3), "tokens are too few"),
        (("--model", "/no/such/folder"), "there is no such folder"),
    ],
)
def test_what_cannot_be_measured_is_said(run, tmp_path, arguments, message):
    result = run(tmp_path / "out", *arguments)
    assert result.exit_code == 1
    assert message in one_line(result.output), result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--n", 4), "nothing to diagnose"),
        (("--data", "x.parquet"), "--data needs --model"),
        (("--model", "x"), "--model needs --data"),
        (("--steps", STEPS), "nothing to diagnose"),
        (("--run", "x", "--steps", STEPS), "--steps needs responses"),
        (("--trace", "x", "--steps", STEPS, "--labels", "y"), "give one of them"),
        (("--model", "x", "--data", "y"), "--model needs --out"),
    ],
)
def test_wrong_uses_of_the_command(arguments, message):
    result = diagnose(*arguments)
    assert result.exit_code == 1
    assert message in one_line(result.output), result.output
