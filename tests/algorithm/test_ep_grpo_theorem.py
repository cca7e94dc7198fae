# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Theorem VI.1 of the paper by autograd, on a toy softmax policy.

The theorem: the policy gradient with EP-GRPO's advantages is the gated GRPO gradient plus eta * grad F with
F = beta/2 * E[Lambda * l^2]. As in every policy gradient, tokens are samples of the policy before the update and E is
the mean over them, so grad F acts on l and not on the sampling. In the discretised form of equations 3 to 7

    beta = lambda,  Lambda = W * d / (sigma_b + eps),  l centred by the mean of its bucket,

with W, d, sigma_b and the mean held fixed. Lambda has the sign of the anchor: F pulls right responses away from the
reference and wrong ones back to it. The centring is a baseline: where Lambda is constant over a bucket its share of
the gradient has expectation 0, and F has the plain l^2 of the paper.
"""

import torch

from epgrpo_verl import EPGRPOConfig, ep_grpo_advantage

VOCABULARY, STATES = 5, 4


def sampled_batch(config, seed=0, rows=12, columns=7):
    """Responses of a softmax policy with one state per column (modulo STATES), and their EP-GRPO result."""
    torch.manual_seed(seed)
    theta = torch.randn(STATES, VOCABULARY, dtype=torch.float64, requires_grad=True)
    reference = theta.detach() + 0.3 * torch.randn(STATES, VOCABULARY, dtype=torch.float64)
    state = torch.arange(columns) % STATES
    distribution = torch.distributions.Categorical(logits=theta.detach()[state])
    tokens = distribution.sample((rows,))
    mask = torch.rand(rows, columns) < 0.8
    mask[:, 0] = True
    index = [f"g{i % 3}" for i in range(rows)]
    rewards = torch.zeros(rows, columns, dtype=torch.float64)
    rewards[:, -1] = (torch.rand(rows) < 0.5).double()
    rewards[0::3, -1] = 1.0
    rewards[1::3, -1] = 0.0

    def log_prob(logits):
        return logits[state].log_softmax(-1).expand(rows, -1, -1).gather(2, tokens.unsqueeze(2)).squeeze(2)

    entropy = distribution.entropy().expand(rows, columns)
    old, ref = log_prob(theta.detach()), log_prob(reference)
    result = ep_grpo_advantage(rewards, mask, entropy, old, ref, index, config)
    return theta, log_prob, ref, mask, index, result


def regulariser(log_ratio, mask, index, result, config):
    """F of the theorem, from W and d of the result and bucket statistics computed here."""
    fixed = log_ratio.detach()
    centre, weight = torch.zeros_like(fixed), torch.zeros_like(fixed)
    for uid in set(index):
        for b in range(config.num_buckets):
            inside = mask & (result.bucket == b) & torch.tensor([key == uid for key in index]).unsqueeze(1)
            if inside.any() and fixed[inside].unique().numel() > 1:
                sigma = (config.lam * fixed[inside]).std(correction=0)
                centre[inside] = fixed[inside].mean()
                weight[inside] = 1 / (sigma + config.progress_eps)
    capital_lambda = weight * result.gate * result.anchor.unsqueeze(1)
    return config.lam / 2 * (capital_lambda * (log_ratio - centre).square())[mask].mean()


def test_gradient_is_gated_grpo_plus_eta_times_the_gradient_of_the_regulariser():
    config = EPGRPOConfig(num_buckets=3, lam=0.3, eta=0.4)
    for seed in range(5):
        theta, log_prob, ref, mask, index, result = sampled_batch(config, seed)
        current = log_prob(theta)
        ratio = torch.exp(current - current.detach())
        (actual,) = torch.autograd.grad((ratio * result.advantages)[mask].mean(), theta, retain_graph=True)

        gated_grpo = (ratio * result.gate * result.outcome_advantage.unsqueeze(1))[mask].mean()
        objective = gated_grpo + config.eta * regulariser(current - ref, mask, index, result, config)
        (expected,) = torch.autograd.grad(objective, theta)
        torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-12)
        assert (actual - torch.autograd.grad(gated_grpo_of(theta, log_prob, mask, result), theta)[0]).abs().max() > 1e-3


def gated_grpo_of(theta, log_prob, mask, result):
    current = log_prob(theta)
    return (torch.exp(current - current.detach()) * result.outcome)[mask].mean()


def test_slope_is_the_derivative_of_the_advantage():
    # A moves by slope * (l' - l) when log pi_theta moves and everything else stands.
    config = EPGRPOConfig(num_buckets=2)
    _, log_prob, ref, mask, index, result = sampled_batch(config, 1)
    log_ratio = result.log_ratio.clone().requires_grad_()
    surface = config.eta * regulariser(log_ratio, mask, index, result, config) * mask.sum()
    (value,) = torch.autograd.grad(surface, log_ratio, create_graph=True)
    torch.testing.assert_close(value.detach(), result.progress, rtol=1e-9, atol=1e-12)
    # A sum's gradient is the derivative of each entry by its own log-ratio, as entries do not mix.
    (slope,) = torch.autograd.grad(value.sum(), log_ratio)
    torch.testing.assert_close(slope, result.progress_slope, rtol=1e-9, atol=1e-12)


def test_in_expectation_the_regulariser_is_the_papers_plain_square():
    # One state, one token per response, ten responses that hold the policy's distribution exactly: 4, 3, 2, 1 of 10.
    # All right and of one entropy: W = 1/2 and d = 1 throughout, so Lambda is constant.
    tokens = torch.tensor([0] * 4 + [1] * 3 + [2] * 2 + [3])
    theta = torch.log(torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)).requires_grad_()
    reference = torch.log(torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64))
    old = theta.detach().log_softmax(-1)[tokens].unsqueeze(1)
    ones = torch.ones_like(old)
    config = EPGRPOConfig(num_buckets=1)
    result = ep_grpo_advantage(ones, ones, ones, old, reference[tokens].unsqueeze(1), ["g"] * 10, config)

    current = theta.log_softmax(-1)[tokens]
    (actual,) = torch.autograd.grad((current * result.advantages.squeeze(1)).mean(), theta, retain_graph=True)
    sigma = (config.lam * (old.squeeze(1) - reference[tokens])).std(correction=0)
    plain = config.lam / 2 * (0.5 / (sigma + config.progress_eps) * (current - reference[tokens]).square()).mean()
    (expected,) = torch.autograd.grad(config.eta * plain, theta)
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-12)
    assert actual.abs().max() > 1e-2
