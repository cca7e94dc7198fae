# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The commands of a run. They are the recipe's own: its dry run prints them, and this module reads them."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.learning.arms import Run

ROOT = Path(__file__).resolve().parents[2]

HELD_OUT_EVERY = 10
"""Steps between two evaluations on the task's test problems; there is one before and one after training too."""


@dataclass(frozen=True)
class Folders:
    """Where a run's files lie.

    Attributes:
        data: Model and problems, shared by all arms of a task and seed.
        out: Logs, metrics and rollouts of this run.
    """

    data: Path
    out: Path


def folders(work: Path, run: Run) -> Folders:
    """Gives the folders of a run below the working folder of the grid."""
    return Folders(
        data=work / "data" / f"{run.task.name}-seed{run.seed}",
        out=work / "runs" / run.task.name / run.arm.name / f"seed{run.seed}",
    )


def overrides(run: Run, out: Path) -> list[str]:
    """Gives the Hydra overrides of a run beside the recipe's: what is logged, the same for all arms, and the arm's."""
    return [
        "trainer.save_freq=-1",
        "trainer.val_before_train=True",
        f"trainer.test_freq={HELD_OUT_EVERY}",
        *run.task.held_out,
        # The rewards of each group, from which the zero-variance shares are counted in the same way for every arm.
        f"trainer.rollout_data_dir='{out / 'rollouts'}'",
        *run.arm.overrides,
    ]


def recipe_call(run: Run, where: Folders, python: str = sys.executable) -> tuple[dict[str, str], list[str]]:
    """Gives the recipe's environment variables and its command line."""
    knobs = {
        **run.task.knobs,
        "ADV": run.arm.estimator,
        "LR": f"{run.task.lr * run.arm.lr_factor:g}",
        "STEPS": str(run.task.steps),
        "SEED": str(run.seed),
        "DATA_DIR": str(where.data),
        "OUT": str(where.out),
        "ENV_PYTHON": python,
    }
    return knobs, ["bash", str(ROOT / "recipes" / run.task.recipe), *overrides(run, where.out)]


def as_shell(run: Run, where: Folders) -> str:
    """Writes the recipe's call as a line for a shell."""
    knobs, command = recipe_call(run, where)
    return " ".join([*(f"{name}={shlex.quote(value)}" for name, value in knobs.items()), shlex.join(command)])


def commands(run: Run, where: Folders) -> tuple[list[str], list[str]]:
    """Gives the two commands that the recipe would run: the one that prepares, and the one that trains.

    Raises:
        RuntimeError: The recipe refuses its knobs.
    """
    knobs, command = recipe_call(run, where)
    # Only what a shell needs: a knob that happens to be set in the caller's environment must not change the run.
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    done = subprocess.run(
        command, env={**environment, **knobs, "DRY_RUN": "1"}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{run.task.recipe} refuses {run}: {done.stderr.strip()}")
    prepare, train = done.stdout.replace("\\\n", "").splitlines()
    return shlex.split(prepare), shlex.split(train)


def environment() -> dict[str, str]:
    """Gives the environment of a run: the caller's, with this checkout's package before an installed one."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path}
