# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The two passes over the tokens, each block by block (see `blocks`).

The statistics of a group need all its rows, so what depends on them waits for the next pass: `survey_tokens` checks the
inputs, finds each token's bucket and each row's statistics; `weigh_tokens` makes the gate and the advantages from the
statistics of the groups. With `gate_normalize` there is one more in between, for the mean of the gate.
"""

from dataclasses import dataclass, replace

import torch

from . import checks
from .advantage import final_advantage, final_slope, progress_advantage
from .blocks import mask_weight, row_blocks, row_sums, select_log_ratio, select_valid
from .config import EPGRPOConfig
from .gate import entropy_gate, gate_factor, gated_outcome
from .groups import Moments
from .progress import (
    bucket_counts,
    bucket_lengths,
    bucket_moments,
    logical_progress,
    progress_alignment,
    progress_signal,
)


class TokenInputs:
    """The per-token inputs, (bs, T) each, read a block of rows at a time.

    Attributes:
        dtype: What is computed in: float64 if any input is, else float32.
        out_dtype: Of per-token results: that of the rewards, float32 if they are integers.
    """

    def __init__(
        self,
        response_mask: torch.Tensor,
        entropy: torch.Tensor | None,
        old_log_probs: torch.Tensor | None,
        ref_log_prob: torch.Tensor | None,
        token_level_rewards: torch.Tensor,
    ) -> None:
        """Checks shapes and types; see `ep_grpo_advantage` for the arguments."""
        tensors = {
            "token_level_rewards": token_level_rewards,
            "entropy": entropy,
            "old_log_probs": old_log_probs,
            "ref_log_prob": ref_log_prob,
        }
        checks.check_shapes(response_mask, tensors)
        self.response_mask = response_mask
        self.given_entropy = entropy
        self.old_log_probs = old_log_probs
        self.ref_log_prob = ref_log_prob
        wide = torch.float64 in [tensor.dtype for tensor in tensors.values() if tensor is not None]
        self.dtype = torch.float64 if wide else torch.float32
        self.out_dtype = token_level_rewards.dtype if token_level_rewards.is_floating_point() else torch.float32
        self.has_log_ratio = old_log_probs is not None and ref_log_prob is not None

    def new_result(self) -> torch.Tensor:
        """An uninitialised (bs, T) result."""
        return torch.empty(self.response_mask.shape, dtype=self.out_dtype, device=self.response_mask.device)

    def weight(self, rows: slice) -> torch.Tensor:
        """1 on valid tokens, 0 on masked ones."""
        return mask_weight(self.response_mask[rows], self.dtype)

    def entropy(self, rows: slice, weight: torch.Tensor) -> torch.Tensor:
        """Entropy in nats, 0 on masked tokens; not clamped."""
        return select_valid(self.given_entropy[rows], weight)

    def log_ratio(self, rows: slice, weight: torch.Tensor) -> torch.Tensor:
        """Log-ratio, 0 on masked tokens."""
        return select_log_ratio(self.old_log_probs[rows], self.ref_log_prob[rows], weight)


@dataclass(frozen=True)
class TokenSurvey:
    """What the first pass finds.

    Attributes:
        valid: (bs,) int64 number of valid tokens.
        progress_coordinate: (bs, T) tau, 0 on masked tokens.
        bucket: (bs, T) int16, -1 on masked tokens.
        bucket_tokens: (bs, K) int64 number of valid tokens in each bucket.
        entropy: Moments of each row's entropy, (bs,) each; None without entropy.
        signal: Moments of the progress signal in each row's buckets, (bs, K) each; None without log-probs.
        dtype: What is computed in.
    """

    valid: torch.Tensor
    progress_coordinate: torch.Tensor
    bucket: torch.Tensor
    bucket_tokens: torch.Tensor
    entropy: Moments | None
    signal: Moments | None
    dtype: torch.dtype

    def weight(self, rows: slice) -> torch.Tensor:
        """1 on valid tokens of a block of rows, 0 on masked ones."""
        return mask_weight(self.bucket[rows] >= 0, self.dtype)


def survey_tokens(inputs: TokenInputs, config: EPGRPOConfig, max_entropy: float | None) -> TokenSurvey:
    """First pass: checks, equations 3 and 4, and the statistics of each row that equations 2 and 5 need.

    Args:
        inputs: Per-token inputs.
        config: Settings.
        max_entropy: log(vocabulary size) in nats, or None.

    Returns:
        What it found.

    Raises:
        ValueError: NaN, inf or an impossible entropy on a valid token.
    """
    tau = inputs.new_result()
    bucket = torch.empty(tau.shape, dtype=torch.int16, device=tau.device)
    counts: list[torch.Tensor] = []
    entropies: list[Moments] = []
    signals: list[Moments] = []

    def survey(rows: slice) -> None:
        weight = inputs.weight(rows)
        if inputs.given_entropy is not None:
            entropy = inputs.entropy(rows, weight)
            checks.check_entropy(entropy, rows.start, max_entropy)
            entropy.clamp_(min=0.0)
            entropies.append(Moments.of_rows(entropy, weight))
            block_tau, block_bucket = logical_progress(entropy, weight, config.num_buckets)
            tau[rows] = block_tau.mul_(weight)
        else:
            tau[rows] = 0.0
            block_bucket = torch.zeros_like(bucket[rows])
        lengths = bucket_lengths(block_bucket, config.num_buckets)
        counts.append(bucket_counts(weight, lengths))
        if inputs.has_log_ratio:
            ratio = inputs.log_ratio(rows, weight)
            checks.check_log_ratio(ratio, inputs.old_log_probs[rows], inputs.ref_log_prob[rows], weight, rows.start)
            signal = progress_signal(ratio, config.lam)
            signals.append(bucket_moments(signal, weight, block_bucket, lengths, counts[-1]))
        bucket[rows] = block_bucket.masked_fill(weight == 0, -1)

    for rows in row_blocks(tau):
        survey(rows)  # a call, so that what a block leaves is freed before the next one
    bucket_tokens = torch.cat(counts)
    return TokenSurvey(
        valid=bucket_tokens.sum(dim=1),
        progress_coordinate=tau,
        bucket=bucket,
        bucket_tokens=bucket_tokens,
        entropy=Moments.join(entropies) if entropies else None,
        signal=Moments.join(signals) if signals else None,
        dtype=inputs.dtype,
    )


def gate_rows(
    inputs: TokenInputs, survey: TokenSurvey, config: EPGRPOConfig, scope: torch.Tensor, num_scopes: int
) -> "RowGate":
    """Between the passes: what the gate of each row depends on; a pass of its own with `gate_normalize`.

    Args:
        inputs: Per-token inputs.
        survey: What the first pass found.
        config: Settings.
        scope: (bs,) int64 scope of the entropy statistics.
        num_scopes: How many there are.

    Returns:
        The gate of each row.
    """
    if not config.gate:
        return RowGate(inputs, config, None, None, None)
    stats = survey.entropy.combined(scope, num_scopes)
    gate = RowGate(inputs, config, stats.mean[scope], stats.std()[scope], None)
    if not config.gate_normalize:
        return gate
    sums = [row_sums(gate.block(rows, survey.weight(rows))) for rows in row_blocks(survey.bucket)]
    return replace(gate, factor=gate_factor(torch.cat(sums), survey.valid, scope, num_scopes))


@dataclass(frozen=True)
class RowGate:
    """Makes the gate of equation 2 for a block of rows.

    Attributes:
        inputs: Per-token inputs.
        config: Settings.
        mean: (bs,) float64 mean entropy of the row's scope; None with `gate` off.
        std: (bs,) float64 std of the entropy of the row's scope; None with `gate` off.
        factor: (bs,) float64 what normalises the gate; None with `gate_normalize` off.
    """

    inputs: TokenInputs
    config: EPGRPOConfig
    mean: torch.Tensor | None
    std: torch.Tensor | None
    factor: torch.Tensor | None

    def block(self, rows: slice, weight: torch.Tensor) -> torch.Tensor:
        """W of a block of rows; 1 on valid tokens with `gate` off, 0 on masked tokens."""
        if self.mean is None:
            return weight
        entropy = self.inputs.entropy(rows, weight).clamp_(min=0.0)
        gate = entropy_gate(entropy, weight, self.mean[rows], self.std[rows], self.config.gamma, self.config.gate_eps)
        return gate if self.factor is None else gate.mul_(self.factor[rows].unsqueeze(1).to(gate.dtype))


def weigh_tokens(
    inputs: TokenInputs,
    survey: TokenSurvey,
    config: EPGRPOConfig,
    scope: torch.Tensor,
    num_scopes: int,
    row_gate: RowGate,
    advantage: torch.Tensor,
    direction: torch.Tensor,
    eta: float,
) -> dict[str, torch.Tensor]:
    """Last pass: equations 2, 5, 7 and 8.

    Args:
        inputs: Per-token inputs.
        survey: What the first pass found.
        config: Settings.
        scope: (bs,) int64 scope of the bucket statistics.
        num_scopes: How many there are.
        row_gate: Makes W.
        advantage: (bs,) A.
        direction: (bs,) d.
        eta: Weight of the progress term at this step.

    Returns:
        The fields `advantages`, `progress`, `gate` and `progress_slope` of the result, (bs, T) each.
    """
    results = {name: inputs.new_result() for name in ("advantages", "progress", "gate", "progress_slope")}
    if config.progress:
        stats = survey.signal.combined(scope, num_scopes)
        mean, std = stats.mean[scope], stats.std()[scope]

    def weigh(rows: slice) -> None:
        weight = survey.weight(rows)
        gate = row_gate.block(rows, weight)
        outcome = gated_outcome(gate, advantage[rows])
        if config.progress:
            signal = progress_signal(inputs.log_ratio(rows, weight), config.lam)
            aligned, by_signal = progress_alignment(
                signal, survey.bucket[rows], mean[rows], std[rows], config.progress_eps
            )
            scale = gate if config.gate_progress else weight
            progress = progress_advantage(scale, direction[rows], aligned, eta)
            slope = progress_advantage(scale, direction[rows], by_signal, eta * config.lam)
        else:
            progress = slope = torch.zeros_like(outcome)
        results["gate"][rows] = gate
        results["progress"][rows] = progress
        results["advantages"][rows] = final_advantage(outcome, progress, config.advantage_clip)
        results["progress_slope"][rows] = final_slope(outcome, progress, slope, config.advantage_clip)

    for rows in row_blocks(survey.bucket):
        weigh(rows)
    return results
