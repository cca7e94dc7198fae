# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What is kept of a run: a few metrics per step, in a file small enough to commit."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from epgrpo_verl.view.metrics import RECOVERED_TOKENS, REWARD, STEP_SECONDS, Metrics, load_metrics

ZERO_VARIANCE = "groups/zero_variance_share"
ALL_WRONG = "groups/all_wrong_share"
ALL_RIGHT = "groups/all_right_share"
"""Counted from the rewards that verl dumps, because without EP-GRPO nothing logs them."""

GRAD_NORM = "actor/grad_norm"
ADV_SECONDS = "timing_s/adv"
REF_SECONDS = "timing_s/ref"
ESTIMATOR_SECONDS = "timing_s/ep_grpo"

KEPT = (
    REWARD,
    GRAD_NORM,
    "actor/entropy",
    "response_length/mean",
    STEP_SECONDS,
    ADV_SECONDS,
    REF_SECONDS,
    ESTIMATOR_SECONDS,
    RECOVERED_TOKENS,
    "ep_grpo/sign_flips/share",
    "ep_grpo/gate/mean",
    "ep_grpo/log_ratio/std",
)
"""Metrics of verl's log that are kept where they are logged."""
HELD_OUT = "held_out/accuracy"
"""verl's ``val-core/<data source>/acc/mean@<samples>``, renamed so that tasks share the name."""
HELD_OUT_LOGGED = re.compile(r"val-core/[^/]+/acc/mean@[0-9]+")

DIGITS = 5
"""Significant digits that are kept."""
EQUAL = 1e-6
"""Rewards closer than this are equal, as for ``zero_variance_atol``."""

Series = dict[str, dict[int, float]]
"""Metric to step to value."""


def group_shares(rewards: Mapping[str, Iterable[float]]) -> dict[str, float]:
    """Gives the shares of groups with equal rewards, and of those with all 0 and all 1.

    Args:
        rewards: Group to the rewards of its responses, 0 or 1.
    """
    groups = [list(values) for values in rewards.values()]
    equal = [values for values in groups if max(values) - min(values) <= EQUAL]
    return {
        ZERO_VARIANCE: len(equal) / len(groups),
        ALL_WRONG: sum(values[0] < 0.5 for values in equal) / len(groups),
        ALL_RIGHT: sum(values[0] > 0.5 for values in equal) / len(groups),
    }


def read_rollouts(file: Path) -> dict[str, list[float]]:
    """Reads the rewards of a step from verl's ``trainer.rollout_data_dir``, by group.

    verl writes a key ``<group>_<sample>_<output>`` under the name uid.
    """
    rewards: dict[str, list[float]] = defaultdict(list)
    for line in file.read_text().splitlines():
        record = json.loads(line)
        rewards[record["uid"].rsplit("_", 2)[0]].append(float(record["score"]))
    return dict(rewards)


def select(metrics: Metrics) -> Series:
    """Picks the metrics that are kept out of a run's log."""
    series: Series = {}
    for name in KEPT:
        steps, values = metrics.series(name)
        if steps:
            series[name] = dict(zip(steps, values, strict=True))
    for step, values in metrics.steps.items():
        for name, value in values.items():
            if HELD_OUT_LOGGED.fullmatch(name):
                series.setdefault(HELD_OUT, {})[step] = float(value)
    return series


def compact(out: Path, steps: int) -> Series:
    """Reads what a finished run left in its folder.

    Args:
        out: The run's folder.
        steps: Steps that the run should have.

    Raises:
        ValueError: A step has no reward or no time, or there are no test problems after the last step. Another metric
            may have been no finite number in a step: it is missing there, and the report says so.
        FileNotFoundError: The run wrote no metrics.
    """
    series = select(load_metrics(out))
    wanted = list(range(1, steps + 1))
    for name in (REWARD, STEP_SECONDS, ADV_SECONDS):
        if list(series.get(name, {})) != wanted:
            raise ValueError(f"{out}: {name} was logged for {len(series.get(name, {}))} of {steps} steps")
    if steps not in series.get(HELD_OUT, {}):
        raise ValueError(f"{out}: the accuracy on the test problems was not logged after step {steps}")
    for step in wanted:
        for name, share in group_shares(read_rollouts(out / "rollouts" / f"{step}.jsonl")).items():
            series.setdefault(name, {})[step] = share
    return series


def dump(series: Series) -> str:
    """Writes a line of JSON per metric: its name, its steps and its values."""
    lines = []
    for name, values in series.items():
        rounded = [float(f"{value:.{DIGITS}g}") for value in values.values()]
        line = json.dumps({"metric": name, "steps": list(values), "values": rounded}, separators=(",", ":"))
        lines.append(line + "\n")
    return "".join(lines)


def load(text: str) -> Series:
    """Reads what :func:`dump` wrote.

    Raises:
        ValueError: A value is no finite number, or there are more values than steps.
    """
    series: Series = {}
    for line in text.splitlines():
        record = json.loads(line)
        if not all(math.isfinite(value) for value in record["values"]):
            raise ValueError(f"{record['metric']}: a value is not a finite number")
        series[record["metric"]] = dict(zip(record["steps"], record["values"], strict=True))
    return series
