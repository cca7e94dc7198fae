# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Compares the arms of one task with GRPO, seed by seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.learning import stats
from benchmarks.learning.arms import BASELINE, PRIMARY
from benchmarks.learning.compact import (
    ADV_SECONDS,
    ALL_WRONG,
    ESTIMATOR_SECONDS,
    HELD_OUT,
    REF_SECONDS,
    ZERO_VARIANCE,
)
from benchmarks.learning.store import Stored
from epgrpo_verl.view.metrics import RECOVERED_TOKENS, REWARD, STEP_SECONDS

ALPHA = 0.05

Seeds = Mapping[int, Stored]
"""Seed to the finished run of one arm on one task."""


@dataclass(frozen=True)
class Difference:
    """An arm minus another in one number per run, over the seeds that both have.

    Attributes:
        count: Seeds that were paired, n.
        mean: Mean difference.
        interval: Bootstrap interval of the mean; None with too few seeds for one.
    """

    count: int
    mean: float
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class BaselineDifference(Difference):
    """An arm minus GRPO, with the paired test.

    Attributes:
        p: Exact two-sided sign-flip test.
        p_adjusted: The same, adjusted by Holm's method for the number of arms that were tried. EP-GRPO itself is the
            one comparison that was named beforehand, so there it is ``p``.
    """

    p: float
    p_adjusted: float

    @property
    def verdict(self) -> str:
        """What may be said about it."""
        if self.interval is None:
            return "too few seeds"
        low, high = self.interval
        if low <= 0 <= high:
            return "no difference seen"
        side = "higher" if self.mean > 0 else "lower"
        return f"{side} than GRPO" if self.p_adjusted <= ALPHA else f"{side} in these seeds, not significant"


@dataclass(frozen=True)
class ArmSummary:
    """An arm on a task over its seeds.

    Attributes:
        arm: Its name.
        seeds: The seeds.
        final: Final reward of each seed.
        area: Area under the learning curve of each seed.
        reached: Step at which each seed reached the task's level; None if it did not.
        held_out: Accuracy on the test problems after the last step, of each seed.
        zero_variance: Mean share of groups with equal rewards, over all steps and seeds.
        all_wrong_first: Share of groups that are all wrong in the first step, over seeds.
        recovered: Mean share of recovered tokens; None where it is not logged.
        step_seconds: Median seconds of a step, over all steps and seeds.
        ref_share: Share of the reference's pass in the time of a step, by their sums, without the first step; None
            where there is none.
        adv_share: The same for verl's advantage stage, which moves the batch to the estimator and back.
        estimator_share: The same for EP-GRPO's estimator alone; None where it is not logged.
        final_difference: Final reward minus GRPO's; None for GRPO itself, or without a common seed.
        area_difference: The same for the area.
        area_minus_primary: Area minus EP-GRPO's; None for EP-GRPO itself, or without a common seed.
    """

    arm: str
    seeds: list[int]
    final: list[float]
    area: list[float]
    reached: list[int | None]
    held_out: list[float]
    zero_variance: float
    all_wrong_first: float
    recovered: float | None
    step_seconds: float
    ref_share: float | None
    adv_share: float
    estimator_share: float | None
    final_difference: BaselineDifference | None = None
    area_difference: BaselineDifference | None = None
    area_minus_primary: Difference | None = None


def rewards_of(stored: Stored) -> list[float]:
    """Gives a run's mean reward per training step."""
    return list(stored.series[REWARD].values())


Values = Mapping[str, Mapping[int, float]]
"""Arm to seed to one number of that run."""


def _paired(values: Values, other: str) -> dict[str, list[float]]:
    """Gives every arm minus one of them, seed by seed; no entry for an arm without a common seed."""
    others = values.get(other, {})
    found = {
        name: [arm[seed] - others[seed] for seed in sorted(arm.keys() & others.keys())] for name, arm in values.items()
    }
    return {name: differences for name, differences in found.items() if differences and name != other}


def _interval(differences: Sequence[float]) -> tuple[float, float] | None:
    return stats.bootstrap_interval(differences) if len(differences) >= stats.MIN_SEEDS else None


def minus(values: Values, other: str) -> dict[str, Difference]:
    """Gives every arm minus one of them."""
    paired = _paired(values, other)
    return {name: Difference(len(d), float(np.mean(d)), _interval(d)) for name, d in paired.items()}


def minus_baseline(values: Values) -> dict[str, BaselineDifference]:
    """Gives every arm minus GRPO, with the test."""
    paired = _paired(values, BASELINE)
    p_values = {name: stats.sign_flip_p(differences) for name, differences in paired.items()}
    secondary = [name for name in p_values if name != PRIMARY]
    adjusted = p_values | dict(zip(secondary, stats.holm([p_values[name] for name in secondary]), strict=True))
    return {
        name: BaselineDifference(len(d), float(np.mean(d)), _interval(d), p_values[name], adjusted[name])
        for name, d in paired.items()
    }


def _mean(runs: Sequence[Stored], name: str) -> float | None:
    values = [value for run in runs for value in run.series.get(name, {}).values()]
    return float(np.mean(values)) if values else None


def _share_of_step(runs: Sequence[Stored], name: str) -> float | None:
    """Gives the share of a timer in the time of the steps, all but the first, in which things are loaded."""
    if not all(name in run.series for run in runs):
        return None
    timed = [(run.series[name], run.series[STEP_SECONDS]) for run in runs]
    later = [(part[step], whole[step]) for part, whole in timed for step in list(whole)[1:]]
    return sum(part for part, _ in later) / sum(whole for _, whole in later)


def summarize(arms: Mapping[str, Seeds], level: float) -> list[ArmSummary]:
    """Summarizes the arms of one task.

    Args:
        arms: Arm to seed to run, all of the same number of steps.
        level: Reward for ``steps_to_reach``.
    """
    window = last_steps(arms)
    last = {
        name: {s: stats.final_reward(rewards_of(run), window) for s, run in seeds.items()}
        for name, seeds in arms.items()
    }
    area = {
        name: {s: stats.area_under_curve(rewards_of(run)) for s, run in seeds.items()} for name, seeds in arms.items()
    }
    final_differences, area_differences = minus_baseline(last), minus_baseline(area)
    minus_primary = minus(area, PRIMARY)
    summaries = []
    for name, seeds in arms.items():
        runs = [seeds[seed] for seed in sorted(seeds)]
        steps = [value for run in runs for value in run.series[STEP_SECONDS].values()]
        summaries.append(
            ArmSummary(
                arm=name,
                seeds=sorted(seeds),
                final=[last[name][seed] for seed in sorted(seeds)],
                area=[area[name][seed] for seed in sorted(seeds)],
                reached=[stats.steps_to_reach(rewards_of(run), level, window) for run in runs],
                held_out=[list(run.series[HELD_OUT].values())[-1] for run in runs],
                zero_variance=_mean(runs, ZERO_VARIANCE),
                all_wrong_first=float(np.mean([next(iter(run.series[ALL_WRONG].values())) for run in runs])),
                recovered=_mean(runs, RECOVERED_TOKENS),
                step_seconds=float(np.median(steps)),
                ref_share=_share_of_step(runs, REF_SECONDS),
                adv_share=_share_of_step(runs, ADV_SECONDS),
                estimator_share=_share_of_step(runs, ESTIMATOR_SECONDS),
                final_difference=final_differences.get(name),
                area_difference=area_differences.get(name),
                area_minus_primary=minus_primary.get(name),
            )
        )
    return summaries


def common_seeds(arms: Mapping[str, Seeds]) -> dict[str, Seeds]:
    """Keeps the seeds that all arms have, so that all columns of a table and all curves are of the same seeds."""
    common = set.intersection(*(set(seeds) for seeds in arms.values())) if arms else set()
    return {name: {seed: seeds[seed] for seed in sorted(common)} for name, seeds in arms.items() if common}


def last_steps(arms: Mapping[str, Seeds]) -> int:
    """Gives the steps that the final reward is averaged over; fewer than usual in a run that is no longer."""
    steps = min(run.settings["steps"] for seeds in arms.values() for run in seeds.values())
    return min(stats.LAST_STEPS, steps)


def _unequal(arms: Mapping[str, Seeds], what: Callable[[Stored], object]) -> list[int]:
    found: dict[int, set[object]] = {}
    for seeds in arms.values():
        for seed, run in seeds.items():
            found.setdefault(seed, set()).add(what(run))
    return sorted(seed for seed, values in found.items() if len(values) > 1)


def unequal_data(arms: Mapping[str, Seeds]) -> list[int]:
    """Gives the seeds whose arms had another initial model or other problems."""
    return _unequal(arms, lambda run: run.data)


def unequal_code(arms: Mapping[str, Seeds]) -> list[int]:
    """Gives the seeds whose arms ran with other source or other versions."""
    return _unequal(arms, lambda run: (run.about["code"], *sorted(run.about["versions"].items())))


def unequal_first_steps(arms: Mapping[str, Seeds]) -> list[int]:
    """Gives the seeds whose arms earned different rewards in the first step.

    Nothing has been updated by then, and the rollouts have the same seeds, so these rewards are equal but for rounding
    that tips the choice of a token.
    """
    return _unequal(arms, lambda run: rewards_of(run)[0])
