# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The results folder: a file of metrics and a file of settings per finished run."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.learning.arms import ARMS, Run
from benchmarks.learning.commands import ROOT, Folders
from benchmarks.learning.compact import Series, dump, load

PACKAGES = ("verl", "torch", "transformers", "ray", "tensordict", "numpy")
CODE = ("epgrpo_verl/algorithm", "epgrpo_verl/plugin", "epgrpo_verl/cpu", "epgrpo_verl/quickstart")
"""Folders whose source decides what a run gives."""
LEARNING_RATE = "actor_rollout_ref.actor.optim.lr="


class ChangedSettings(RuntimeError):
    """A run is stored with other settings than it would have now."""


@cache
def data_digest(data: Path) -> str:
    """Gives a hash of the initial weights and of the problems in a prepared folder."""
    digest = hashlib.sha256()
    for file in sorted([*data.glob("model/*.safetensors"), *data.glob("*.parquet")]):
        digest.update(file.name.encode())
        with file.open("rb") as content:
            while block := content.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:16]


def code_digest() -> str:
    """Gives a hash of the source that decides what a run gives."""
    digest = hashlib.sha256()
    for file in sorted(file for folder in CODE for file in (ROOT / folder).glob("*.py")):
        digest.update(file.relative_to(ROOT).as_posix().encode() + b"\n" + file.read_bytes())
    return digest.hexdigest()[:16]


def versions() -> dict[str, str]:
    """Gives the versions of what a run runs with."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def commit() -> str:
    """Gives the commit of this checkout, or an empty string outside of git."""
    done = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def about() -> dict[str, Any]:
    """Gives what a run that starts now runs with: commit, source, versions and machine. It is not compared."""
    return {
        "commit": commit(),
        "code": code_digest(),
        "versions": versions(),
        "machine": {"architecture": platform.machine(), "cores": os.cpu_count()},
    }


def fixed_settings(run: Run, where: Folders, prepare: Sequence[str], train: Sequence[str]) -> dict[str, Any]:
    """Gives what has to be the same for a stored run to count as this one. Holds no path of this machine.

    Args:
        run: The run.
        where: Its folders.
        prepare: The command that makes model and problems, the program first.
        train: The command that trains.
    """
    names = {str(where.data): "DATA_DIR", str(where.out): "OUT", str(ROOT): "ROOT"}

    def plain(word: str) -> str:
        for path, name in names.items():
            word = word.replace(path, name)
        return word

    return {
        "task": run.task.name,
        "arm": run.arm.name,
        "seed": run.seed,
        "steps": run.task.steps,
        "prepare": [plain(word) for word in prepare[1:]],
        "train": [plain(word) for word in train[1:]],
    }


def shared_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Gives what all runs of a task share: the steps, and the words of the commands without the arm's and the seed."""
    arm = ARMS[settings["arm"]]
    own = {*arm.overrides, f"algorithm.adv_estimator={arm.estimator}"}
    found: dict[str, Any] = {"steps": settings["steps"]}
    for key in ("prepare", "train"):
        words = [word for word in settings[key] if word not in own]
        for index, word in enumerate(words):
            if word.startswith(LEARNING_RATE):
                words[index] = f"{LEARNING_RATE}{float(word.removeprefix(LEARNING_RATE)) / arm.lr_factor:g}"
            elif word.endswith(f"seed={settings['seed']}"):
                words[index] = word.rpartition("=")[0] + "=SEED"
            elif index and words[index - 1] == "--seed":
                words[index] = "SEED"
        found[key] = words
    return found


def changed_settings(stored: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Names the settings that differ, with both values; the words of a command one by one."""
    found = []
    for key in sorted(stored.keys() | now.keys()):
        old, new = stored.get(key), now.get(key)
        if old == new:
            continue
        if isinstance(old, list) and isinstance(new, list):
            gone, come = [w for w in old if w not in new], [w for w in new if w not in old]
            found.append(f"{key}: {' '.join(gone) or '(nothing)'} is now {' '.join(come) or '(nothing)'}")
        else:
            found.append(f"{key}: {old} is now {new}")
    return found


@dataclass(frozen=True)
class Stored:
    """A finished run.

    Attributes:
        settings: What :func:`fixed_settings` gave for it.
        data: Hash of the initial model and the problems.
        about: Versions, code, machine, seconds and date; not compared.
        series: Metric to step to value.
    """

    settings: dict[str, Any]
    data: str
    about: dict[str, Any]
    series: Series


class Store:
    """Finished runs below a folder, at ``<task>/<arm>/seed<n>.json`` and ``.jsonl``."""

    def __init__(self, folder: Path):
        self.folder = folder

    def _file(self, run: Run) -> Path:
        return self.folder / run.task.name / run.arm.name / f"seed{run.seed}.json"

    def load(self, run: Run) -> Stored | None:
        """Reads a run, or gives None where it has not been finished."""
        file = self._file(run)
        return read(file) if file.is_file() else None

    def finished(self, run: Run, settings: dict[str, Any]) -> bool:
        """Tells whether a run is stored.

        Raises:
            ChangedSettings: It is, with other settings.
        """
        stored = self.load(run)
        if stored is None:
            return False
        if changes := changed_settings(stored.settings, settings):
            raise ChangedSettings(
                f"{run} is stored in {self.folder} with other settings ({'; '.join(changes)}). Keep these runs apart: "
                "name another folder with --results and --work, or undo the change."
            )
        return True

    def check_alike(self, run: Run, settings: dict[str, Any]) -> None:
        """Checks that a run would have the budget and the settings of the stored runs of its task.

        Raises:
            ChangedSettings: It would not. What belongs to its arm or its seed may differ.
        """
        for file in sorted(self.folder.glob(f"{run.task.name}/*/seed*.json"))[:1]:  # the stored ones are alike
            stored = json.loads(file.read_text())["settings"]
            if changes := changed_settings(shared_settings(stored), shared_settings(settings)):
                raise ChangedSettings(
                    f"{run} would have other settings than the stored {file} ({'; '.join(changes)}), so they could "
                    "not be compared. Name another folder with --results and --work, or undo the change."
                )

    def check_data(self, run: Run, data: str) -> None:
        """Checks that a run starts from the same model and problems as the stored runs of its task and seed.

        Raises:
            ChangedSettings: It does not.
        """
        for file in sorted(self.folder.glob(f"{run.task.name}/*/seed{run.seed}.json")):
            if (stored := read(file)).data != data:
                raise ChangedSettings(
                    f"{run} would start from another model or other problems ({data}) than the stored {file} "
                    f"({stored.data}), so they could not be compared. Name another folder with --results."
                )

    def save(self, run: Run, settings: dict[str, Any], data: str, series: Series, about: dict[str, Any]) -> None:
        """Writes a run; the settings last, since they say that the run is whole.

        Args:
            run: The run.
            settings: From :func:`fixed_settings`.
            data: From :func:`data_digest`.
            series: From :func:`benchmarks.learning.compact.compact`.
            about: From :func:`about`, and the ``seconds`` that the run took.
        """
        file = self._file(run)
        file.parent.mkdir(parents=True, exist_ok=True)
        about = {"finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **about}
        file.with_suffix(".jsonl").write_text(dump(series))
        part = file.with_suffix(".part")
        part.write_text(json.dumps({"settings": settings, "data": data, "about": about}, indent=1) + "\n")
        part.replace(file)


def read(file: Path) -> Stored:
    """Reads a stored run from its file of settings, beside which its metrics lie."""
    record = json.loads(file.read_text())
    return Stored(record["settings"], record["data"], record["about"], load(file.with_suffix(".jsonl").read_text()))
