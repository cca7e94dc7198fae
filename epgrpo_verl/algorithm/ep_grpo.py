# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The way from verl's tensors through all eight equations to the advantages."""

from collections.abc import Sequence
from typing import Any

import torch

from . import checks
from .anchor import anchor
from .config import EPGRPOConfig
from .groups import group_ids, scope_ids
from .outcome import group_rewards, outcome_advantage, outcome_reward
from .passes import TokenInputs, gate_rows, survey_tokens, weigh_tokens
from .result import EPGRPOResult


@torch.no_grad()
def ep_grpo_advantage(
    token_level_rewards: torch.Tensor,
    response_mask: torch.Tensor,
    entropy: torch.Tensor | None,
    old_log_probs: torch.Tensor | None,
    ref_log_prob: torch.Tensor | None,
    index: Sequence[Any] | torch.Tensor,
    config: EPGRPOConfig | None = None,
    norm_adv_by_std: bool = True,
    *,
    step: int | None = None,
    outcome_row: torch.Tensor | None = None,
    max_entropy: float | None = None,
) -> EPGRPOResult:
    """Computes EP-GRPO's advantages (arXiv 2605.04960): equations 1 to 8 of docs/algorithm.md. No gradient flows.

    Tokens are computed in float32 whatever the inputs are, in float64 if any of them is; sums and statistics in
    float64. On a CPU the result has the same bits for any number of threads.

    Args:
        token_level_rewards: (bs, T) rewards. All columns count, masked or not.
        response_mask: (bs, T) bool or number, non-zero on valid tokens; may have holes. What the other tensors hold
            on masked tokens is ignored, NaN included.
        entropy: (bs, T) entropy H of the policy at each token, in nats. May be None with `gate` and `progress` off.
        old_log_probs: (bs, T) log pi_theta. May be None with `progress` off.
        ref_log_prob: (bs, T) log pi_ref. May be None with `progress` off.
        index: (bs,) group key of each row: verl's `uid`, as numpy object array, list or tensor.
        config: Settings; None gives the defaults.
        norm_adv_by_std: verl's `norm_adv_by_std_in_grpo`.
        step: Training step from 1; needed with `eta_warmup_steps` only.
        outcome_row: (bs,) int64, for sessions with several outputs: the row that carries this row's outcome and votes
            in its group (see `last_output_rows`). None means that each row carries its own. If the carrying row has
            no valid token, the session has no outcome and its rows get 0.
        max_entropy: log(vocabulary size) in nats; entropies above it are an error.

    Returns:
        Advantages and their parts, row i for input row i.

    Raises:
        TypeError: An input has the wrong type.
        ValueError: An input is missing, has the wrong shape, or holds NaN, inf or an impossible entropy on a valid
            token; the message names tensor, row and column.
    """
    config = EPGRPOConfig() if config is None else config
    eta = config.eta_at(step)
    checks.check_norm_adv_by_std(norm_adv_by_std)
    _check_present(config, entropy, old_log_probs, ref_log_prob)
    inputs = TokenInputs(response_mask, entropy, old_log_probs, ref_log_prob, token_level_rewards)
    num_rows, device = len(response_mask), response_mask.device
    group, num_groups = group_ids(index, num_rows)
    group = group.to(device)
    carrier = checks.checked_outcome_row(outcome_row, group)
    entropy_scope = scope_ids(config.entropy_scope, group, num_groups)
    bucket_scope = scope_ids(config.bucket_scope, group, num_groups)

    tokens = survey_tokens(inputs, config, max_entropy)
    valid_row = tokens.valid > 0

    own_reward = outcome_reward(token_level_rewards, valid_row).to(inputs.dtype)
    checks.check_rewards(own_reward, token_level_rewards, valid_row)
    votes = valid_row & (carrier == torch.arange(num_rows, device=device))
    stats = group_rewards(own_reward, votes, group, num_groups, config.zero_variance_atol)
    own_advantage = outcome_advantage(own_reward, votes, group, stats, norm_adv_by_std)
    own_anchor = anchor(
        own_reward, votes, group, stats, config.reward_threshold, config.zero_variance_atol, config.zero_variance
    )
    # Every output of a session has the session's outcome.
    reward, advantage, direction = (
        values[carrier].masked_fill(~valid_row, 0.0) for values in (own_reward, own_advantage, own_anchor)
    )

    row_gate = gate_rows(inputs, tokens, config, *entropy_scope)
    return EPGRPOResult(
        **weigh_tokens(inputs, tokens, config, *bucket_scope, row_gate, advantage, direction, eta),
        progress_coordinate=tokens.progress_coordinate,
        bucket=tokens.bucket,
        anchor=direction,
        zero_variance=(stats.equal & (stats.size > 1))[group] & valid_row,
        outcome_reward=reward,
        outcome_advantage=advantage,
        group=group,
        votes=votes,
        valid_row=valid_row,
        old_log_probs=None if old_log_probs is None else old_log_probs.detach(),
        ref_log_prob=None if ref_log_prob is None else ref_log_prob.detach(),
        bucket_tokens=tokens.bucket_tokens,
        config=config,
    )


def _check_present(
    config: EPGRPOConfig,
    entropy: torch.Tensor | None,
    old_log_probs: torch.Tensor | None,
    ref_log_prob: torch.Tensor | None,
) -> None:
    if entropy is None and (config.gate or config.progress):
        raise ValueError(
            "entropy is missing: EP-GRPO needs it "
            "unless both algorithm.ep_grpo.gate and algorithm.ep_grpo.progress are false"
        )
    for name, tensor in {"old_log_probs": old_log_probs, "ref_log_prob": ref_log_prob}.items():
        if tensor is None and config.progress:
            raise ValueError(f"{name} is missing: EP-GRPO needs it unless algorithm.ep_grpo.progress is false")
