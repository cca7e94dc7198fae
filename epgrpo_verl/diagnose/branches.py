# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the two branches at each chosen position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epgrpo_verl.cpu.generation import Row
from epgrpo_verl.cpu.sampling import row_seed

from .collect import Bar, Plan, Sample, grade
from .concentration import high_tokens
from .perturbation import KINDS, Kind, Trial, check_something_to_lose, choose_positions
from .policy import Policy


@dataclass(frozen=True)
class Branch:
    """A begun response that the policy is to finish.

    Attributes:
        sample: Number of the sample.
        kind: Of the position.
        position: Index of the token in question.
        replaced: Whether it is another one than the sample's.
        tokens: The response up to that token, it included.
        seed: Of the random numbers from there on.
    """

    sample: int
    kind: Kind
    position: int
    replaced: bool
    tokens: list[int]
    seed: int


def make_branches(samples: Sequence[Sample], seed: int) -> list[Branch]:
    """Chooses positions and makes two branches at each, control first.

    Args:
        samples: The samples.
        seed: Decides positions and random numbers.
    """
    lengths = [len(sample.tokens) for sample in samples]
    high = high_tokens([entropy for sample in samples for entropy in sample.look.entropies])
    branches = []
    for number, marks in enumerate(np.split(high, np.cumsum(lengths)[:-1])):
        sample = samples[number]
        positions = choose_positions(marks, row_seed(seed, "position", *sample.key))
        for kind in KINDS:
            position = positions[kind]
            if position is None:
                continue
            before = sample.tokens[:position]
            # The same for both branches, so that they differ by the token and not by chance as well.
            onward = row_seed(seed, "onward", kind, *sample.key) >> 11
            for replaced in (False, True):
                token = sample.look.replacements[position] if replaced else sample.tokens[position]
                branches.append(Branch(number, kind, position, replaced, [*before, token], onward))
    return branches


def run_branches(plan: Plan, policy: Policy, samples: Sequence[Sample], bar: Bar) -> list[Trial]:
    """Finishes and grades all branches.

    A branch whose last token is an end token, or that is as long as a response may be, is finished as it is.

    Raises:
        EvaluationError: No response is right, so that there is nothing to lose.
    """
    check_something_to_lose([sample.won for sample in samples])
    branches = make_branches(samples, plan.sampling.seed)
    limit, ends = plan.sampling.max_tokens, set(plan.model.end_tokens)
    open_ones = [
        place for place, branch in enumerate(branches) if branch.tokens[-1] not in ends and len(branch.tokens) < limit
    ]
    rows = [
        Row(
            samples[branches[place].sample].prompt_ids + branches[place].tokens,
            branches[place].seed,
            limit - len(branches[place].tokens),
        )
        for place in open_ones
    ]
    tokens = [branch.tokens for branch in branches]
    with bar("branches") as start:
        advance = start(0, len(rows))
        for place, more in zip(open_ones, policy.continue_rows(rows, advance), strict=True):
            tokens[place] = branches[place].tokens + more.tokens
    texts = [plan.model.tokenizer.decode(ids, skip_special_tokens=True) for ids in tokens]
    problems = [plan.problems[samples[branch.sample].problem] for branch in branches]
    right = [won for won, _ in grade(plan, problems, texts)]
    return [
        _trial(branches[place], samples[branches[place].sample], right[place], right[place + 1])
        for place in range(0, len(branches), 2)
    ]


def _trial(branch: Branch, sample: Sample, control: bool, replaced: bool) -> Trial:
    return Trial(
        sample.problem,
        branch.kind,
        sample.won,
        control,
        replaced,
        sample.look.entropies[branch.position],
        sample.look.replacement_probs[branch.position],
    )
