# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Polarity: right steps that are punished, and wrong steps that are rewarded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from epgrpo_verl.algorithm import EPGRPOConfig, ep_grpo_advantage
from epgrpo_verl.evaluation.statistics import Estimate

from .ratio import RESAMPLES, ratio_of_sums


@dataclass(frozen=True)
class JudgedStep:
    """A step of a response.

    Attributes:
        right: Whether it is.
        advantage: What it is trained with: the mean advantage of its tokens. None if it has no trained token.
    """

    right: bool
    advantage: float | None


@dataclass(frozen=True)
class JudgedResponse:
    """A response.

    Attributes:
        won: Whether its outcome is right.
        steps: Its steps.
    """

    won: bool
    steps: tuple[JudgedStep, ...]


@dataclass(frozen=True)
class JudgedGroup:
    """The responses to one prompt.

    Attributes:
        responses: All of them.
        equal: Whether there are two or more, all with the same reward.
    """

    responses: tuple[JudgedResponse, ...]
    equal: bool


@dataclass(frozen=True)
class Counts:
    """Counts over groups.

    Attributes:
        groups, responses, won: How many there are.
        right_in_failed, wrong_in_failed, right_in_won, wrong_in_won: Steps by themselves and by their response.
        right_in_failed_punished: Of the first, those with an advantage below 0.
        right_in_failed_rewarded: Those with one above 0.
        wrong_in_won_rewarded: Of the wrong steps of winning responses, those with an advantage above 0.
        wrong_in_won_punished: Those with one below 0.
        untrained: Steps without a trained token; they are in no other count.
    """

    groups: int
    responses: int
    won: int
    right_in_failed: int
    wrong_in_failed: int
    right_in_won: int
    wrong_in_won: int
    right_in_failed_punished: int
    right_in_failed_rewarded: int
    wrong_in_won_rewarded: int
    wrong_in_won_punished: int
    untrained: int


@dataclass(frozen=True)
class Polarity:
    """Shares; None where there is nothing to take a share of.

    Attributes:
        right_punished: Share of the right steps in failed responses that have an advantage below 0.
        right_rewarded: Share of them that have one above 0.
        wrong_in_winning: Share of the steps of winning responses that are wrong.
        wrong_rewarded: Share of the wrong steps in winning responses that have an advantage above 0.
        wrong_punished: Share of them that have one below 0.
        right_in_failed: Share of the steps of failed responses that are right.
        equal_groups: Share of groups with equal rewards.
        counts: What the shares are made of.
    """

    right_punished: Estimate | None
    right_rewarded: Estimate | None
    wrong_in_winning: Estimate | None
    wrong_rewarded: Estimate | None
    wrong_punished: Estimate | None
    right_in_failed: Estimate | None
    equal_groups: Estimate | None
    counts: Counts


def polarity(groups: Sequence[JudgedGroup], resamples: int = RESAMPLES) -> Polarity:
    """Measures how often the sign of the advantage goes against the step.

    Args:
        groups: The groups; intervals are of a bootstrap over them.
        resamples: Bootstrap draws.
    """
    single = [_count([group]) for group in groups]

    def share(part: Callable[[Counts], int], whole: Callable[[Counts], int]) -> Estimate | None:
        return ratio_of_sums([part(c) for c in single], [whole(c) for c in single], resamples)

    return Polarity(
        right_punished=share(lambda c: c.right_in_failed_punished, lambda c: c.right_in_failed),
        right_rewarded=share(lambda c: c.right_in_failed_rewarded, lambda c: c.right_in_failed),
        wrong_in_winning=share(lambda c: c.wrong_in_won, lambda c: c.wrong_in_won + c.right_in_won),
        wrong_rewarded=share(lambda c: c.wrong_in_won_rewarded, lambda c: c.wrong_in_won),
        wrong_punished=share(lambda c: c.wrong_in_won_punished, lambda c: c.wrong_in_won),
        right_in_failed=share(lambda c: c.right_in_failed, lambda c: c.right_in_failed + c.wrong_in_failed),
        equal_groups=equal_groups([group.equal for group in groups], resamples),
        counts=_count(groups),
    )


def equal_groups(equal: Sequence[bool], resamples: int = RESAMPLES) -> Estimate | None:
    """Share of groups with equal rewards."""
    return ratio_of_sums([float(one) for one in equal], [1.0] * len(equal), resamples) if len(equal) else None


def _count(groups: Sequence[JudgedGroup]) -> Counts:
    responses = [response for group in groups for response in group.responses]
    trained = [(r.won, s.right, s.advantage) for r in responses for s in r.steps if s.advantage is not None]
    right_in_failed = [advantage for won, right, advantage in trained if right and not won]
    wrong_in_won = [advantage for won, right, advantage in trained if won and not right]
    return Counts(
        groups=len(groups),
        responses=len(responses),
        won=sum(response.won for response in responses),
        right_in_failed=len(right_in_failed),
        wrong_in_failed=sum(not won and not right for won, right, _ in trained),
        right_in_won=sum(won and right for won, right, _ in trained),
        wrong_in_won=len(wrong_in_won),
        right_in_failed_punished=sum(advantage < 0 for advantage in right_in_failed),
        right_in_failed_rewarded=sum(advantage > 0 for advantage in right_in_failed),
        wrong_in_won_rewarded=sum(advantage > 0 for advantage in wrong_in_won),
        wrong_in_won_punished=sum(advantage < 0 for advantage in wrong_in_won),
        untrained=sum(step.advantage is None for response in responses for step in response.steps),
    )


def grpo_groups(scores: Sequence[Sequence[float]]) -> tuple[list[list[float]], list[bool]]:
    """GRPO's advantages (equation 1, with division by the std) and which groups have equal rewards.

    Args:
        scores: The rewards of each group.

    Returns:
        For each group its advantages, one per response, and whether its rewards are equal.
    """
    rewards = torch.tensor([score for group in scores for score in group], dtype=torch.float64).unsqueeze(1)
    index = [number for number, group in enumerate(scores) for _ in group]
    plain = EPGRPOConfig(gate=False, progress=False)
    result = ep_grpo_advantage(rewards, torch.ones_like(rewards), None, None, None, index, plain)
    advantages, equal, start = [], [], 0
    for group in scores:
        rows = slice(start, start + len(group))
        advantages.append(result.outcome_advantage[rows].tolist())
        equal.append(bool(result.zero_variance[rows].all()))
        start += len(group)
    return advantages, equal
