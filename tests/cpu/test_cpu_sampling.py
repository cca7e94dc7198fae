# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Sampling: the distribution, its log-probs and its limits."""

import math

import pytest
import torch

from epgrpo_verl.cpu.sampling import RowLimits, Sampler, SamplingParams, inverse_cdf_sample, row_seed


def test_inverse_cdf_by_hand():
    # Probabilities 0.5, 0, 0.25, 0.25: the cumulative distribution is 0.5, 0.5, 0.75, 1.
    row = torch.tensor([0.5, 0.0, 0.25, 0.25]).log()
    uniforms = torch.tensor([0.0, 0.499, 0.501, 0.749, 0.751, 1 - 2**-53], dtype=torch.float64)
    assert inverse_cdf_sample(row.expand(6, 4), uniforms).tolist() == [0, 0, 2, 2, 3, 3]


def test_an_excluded_last_token_is_never_drawn():
    row = torch.tensor([[0.0, 0.0, -torch.inf]])
    assert inverse_cdf_sample(row, torch.tensor([1 - 2**-53], dtype=torch.float64)).item() == 1


def test_draws_follow_the_distribution():
    log_probs = torch.tensor([0.6, 0.3, 0.1]).log()
    uniforms = torch.rand(20000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    drawn = inverse_cdf_sample(log_probs.expand(20000, 3), uniforms)
    shares = torch.bincount(drawn, minlength=3) / 20000
    # Four standard deviations of a share at p = 0.5 with 20000 draws is 0.014.
    assert torch.allclose(shares, torch.tensor([0.6, 0.3, 0.1]), atol=0.014)


LOGITS = torch.tensor([[2.0, 1.0, 0.0, -1.0]])


@pytest.mark.parametrize(
    ("params", "kept"),
    [
        (SamplingParams(), [0, 1, 2, 3]),
        (SamplingParams(temperature=0.5), [0, 1, 2, 3]),
        (SamplingParams(top_k=2), [0, 1]),
        # softmax(2, 1, 0, -1) = 0.644, 0.237, 0.087, 0.032: two tokens reach 0.8, three reach 0.9.
        (SamplingParams(top_p=0.8), [0, 1]),
        (SamplingParams(top_p=0.9), [0, 1, 2]),
        # At temperature 0.5 the first two already hold 0.866 + 0.117.
        (SamplingParams(temperature=0.5, top_p=0.9), [0, 1]),
        (SamplingParams(temperature=2.0, top_k=3, top_p=0.99), [0, 1, 2]),
    ],
)
def test_recorded_log_probs_are_those_of_the_distribution_sampled_from(params, kept):
    # Renormalise by hand over the tokens kept.
    scaled = [math.exp(LOGITS[0, k].item() / params.temperature) for k in kept]
    expected = {k: math.log(value / sum(scaled)) for k, value in zip(kept, scaled, strict=True)}
    seen = set()
    for seed in range(200):
        sampler = Sampler(params, [seed], [1])
        scores = sampler(torch.zeros(1, 1, dtype=torch.long), LOGITS)
        token = scores.argmax(-1).item()
        assert sampler.log_probs[0].item() == pytest.approx(expected[token], abs=1e-5)
        seen.add(token)
    assert seen <= set(kept)
    assert set(kept[:2]) <= seen


def test_raw_log_probs_ignore_temperature_and_top_k():
    sampler = Sampler(SamplingParams(temperature=0.1, top_k=1), [0], [1], raw_logprobs=True)
    sampler(torch.zeros(1, 1, dtype=torch.long), LOGITS)
    assert sampler.log_probs[0].item() == pytest.approx(LOGITS.log_softmax(-1)[0, 0].item())


def test_temperature_zero_is_greedy_and_unscaled():
    sampler = Sampler(SamplingParams(temperature=0.0, top_k=3), [5], [1])
    assert sampler(torch.zeros(1, 1, dtype=torch.long), LOGITS).argmax(-1).item() == 0
    assert sampler.log_probs[0].item() == pytest.approx(LOGITS.log_softmax(-1)[0, 0].item())


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_not_finite_are_an_error(bad):
    logits = LOGITS.clone()
    logits[0, 1] = bad
    with pytest.raises(FloatingPointError, match="NaN or inf"):
        Sampler(SamplingParams(), [0], [1])(torch.zeros(1, 1, dtype=torch.long), logits)


def test_a_row_draws_the_same_whatever_the_other_rows_are():
    def draws(seeds: list[int]) -> list[list[int]]:
        sampler = Sampler(SamplingParams(), seeds, [50] * len(seeds))
        ids = torch.zeros(len(seeds), 1, dtype=torch.long)
        return torch.stack([sampler(ids, LOGITS.expand(len(seeds), 4)).argmax(-1) for _ in range(50)], 1).tolist()

    alone, together = draws([7])[0], draws([3, 7, 9])
    assert alone == together[1]
    assert together[0] != together[1]


def test_row_limits():
    limits = RowLimits(prompt_width=3, max_tokens=[1, 2])
    assert limits(torch.zeros(2, 4), None).tolist() == [True, False]
    assert limits(torch.zeros(2, 5), None).tolist() == [True, True]
    limits.abort = True
    assert limits(torch.zeros(2, 4), None).tolist() == [True, True]


def test_seeds_are_stable_across_processes_and_depend_on_every_part():
    assert row_seed(1, None, (2, 3)) == 13703434250612228128
    assert len({row_seed(0, 0, (1, 2)), row_seed(1, 0, (1, 2)), row_seed(0, 1, (1, 2)), row_seed(0, 0, (1, 3))}) == 4


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"repetition_penalty": 1.1}, "repetition_penalty=1.0"),
        ({"temperature": -1}, "temperature=-1"),
        ({"top_p": 0}, "top_p=0"),
        ({"top_p": 1.5}, "top_p=1.5"),
        ({"top_k": -2}, "top_k=-2"),
        ({"stop": ["x"]}, "stop"),
    ],
)
def test_parameters_that_cannot_be_honoured_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        SamplingParams.from_verl(given)


def test_verls_own_parameters_are_understood():
    given = {"temperature": 0.7, "top_p": 0.9, "top_k": 5, "repetition_penalty": 1.0, "logprobs": True}
    assert SamplingParams.from_verl(given) == SamplingParams(0.7, 5, 0.9, True)
    assert "temperature" in given  # the caller's dict is left alone
