# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Compares the arms of one task with GRPO, seed by seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.learning import stats
from benchmarks.learning.arms import BASELINE, PRIMARY
from benchmarks.learning.compact import ALL_WRONG, HELD_OUT, ZERO_VARIANCE
from benchmarks.learning.store import Stored
from epgrpo_verl.view.metrics import RECOVERED_TOKENS, REWARD, STEP_SECONDS

ALPHA = 0.05

Seeds = Mapping[int, Stored]
"""Seed to the finished run of one arm on one task."""


@dataclass(frozen=True)
class Difference:
    """An arm less another, GRPO if nothing else is said, in one number per run, over the seeds that both have.

    Attributes:
        count: Seeds that were paired, n.
        mean: Mean difference.
        interval: Bootstrap interval of the mean; None with one seed.
        p: Exact two-sided sign-flip test.
        p_adjusted: The same, adjusted by Holm's method for the number of arms that were tried. EP-GRPO itself is the
            one comparison that was named beforehand, so there it is ``p``.
    """

    count: int
    mean: float
    interval: tuple[float, float] | None
    p: float
    p_adjusted: float

    @property
    def verdict(self) -> str:
        """What may be said about it."""
        if self.interval is None:
            return "one seed: nothing can be said"
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
        final_difference: Paired with GRPO; None for GRPO itself, or without a common seed.
        area_difference: The same for the area.
        area_less_primary: Area less EP-GRPO's; None for EP-GRPO itself, or without a common seed.
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
    final_difference: Difference | None = None
    area_difference: Difference | None = None
    area_less_primary: Difference | None = None


def rewards_of(stored: Stored) -> list[float]:
    """Gives a run's mean reward per training step."""
    return list(stored.series[REWARD].values())


def differences(arm: Mapping[int, float], baseline: Mapping[int, float]) -> list[float]:
    """Gives the differences of the seeds that both have, in the order of the seeds."""
    return [arm[seed] - baseline[seed] for seed in sorted(arm.keys() & baseline.keys())]


def _compare(values: Mapping[str, Mapping[int, float]], other: str = BASELINE) -> dict[str, Difference]:
    """Compares every arm with one of them in one statistic, given by arm and seed."""
    paired = {name: differences(arm, values.get(other, {})) for name, arm in values.items() if name != other}
    paired = {name: found for name, found in paired.items() if found}
    p_values = {name: stats.sign_flip_p(found) for name, found in paired.items()}
    secondary = [name for name in p_values if name != PRIMARY]
    adjusted = p_values | dict(zip(secondary, stats.holm([p_values[name] for name in secondary]), strict=True))
    return {
        name: Difference(
            count=len(found),
            mean=float(np.mean(found)),
            interval=stats.bootstrap_interval(found) if len(found) > 1 else None,
            p=p_values[name],
            p_adjusted=adjusted[name],
        )
        for name, found in paired.items()
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
    final_differences, area_differences, to_primary = _compare(last), _compare(area), _compare(area, PRIMARY)
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
                ref_share=_share_of_step(runs, "timing_s/ref"),
                adv_share=_share_of_step(runs, "timing_s/adv"),
                estimator_share=_share_of_step(runs, "timing_s/ep_grpo"),
                final_difference=final_differences.get(name),
                area_difference=area_differences.get(name),
                area_less_primary=to_primary.get(name),
            )
        )
    return summaries


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


def unequal_first_steps(arms: Mapping[str, Seeds]) -> list[int]:
    """Gives the seeds whose arms earned different rewards in the first step.

    Nothing has been updated by then, and the rollouts have the same seeds, so these rewards are equal but for rounding
    that tips the choice of a token.
    """
    return _unequal(arms, lambda run: rewards_of(run)[0])
