# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The paper's recipes, started as the scripts that they are, for two steps of verl's trainer on the CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from python_on_a_cpu import __file__ as PYTHON_ON_A_CPU
from recipe_configs import RECIPES

from epgrpo_verl.data import SOURCES
from epgrpo_verl.data.problems import Problem
from epgrpo_verl.data.prompt import user_message
from epgrpo_verl.data.write import verl_rows, write_all
from epgrpo_verl.quickstart.model import END, WarmUp, build_model, build_tokenizer

TIMEOUT_S = 600
PROMPTS = 4
"""Prompts of a step: all there are, so that both steps have groups of all kinds."""
IN_REACH, OUT_OF_REACH = ("1", "2"), "1234567"
"""Answers that the model gives to everything, and one that is longer than its responses may be."""


@dataclass(frozen=True)
class RecipeRun:
    """One finished run.

    Attributes:
        out: Folder of the recipe's output.
        log: What the script printed.
    """

    out: Path
    log: str

    @cached_property
    def metrics(self) -> dict[int, dict[str, float]]:
        """What verl's file logger wrote, by step."""
        lines = (self.out / "metrics-000.jsonl").read_text().splitlines()
        return {line["step"]: line["data"] for line in map(json.loads, lines)}

    @cached_property
    def overrides(self) -> list[str]:
        """The overrides that verl's Hydra got, as it wrote them down."""
        return list(OmegaConf.load(self.out / "hydra" / ".hydra" / "overrides.yaml"))

    @cached_property
    def config(self) -> DictConfig:
        """The config that Hydra composed in the run."""
        return OmegaConf.load(self.out / "hydra" / ".hydra" / "config.yaml")

    def groups(self, step: int) -> list[list[dict[str, Any]]]:
        """The responses of a step, by prompt, as verl dumped them."""
        groups = defaultdict(list)
        for line in (self.out / "rollouts" / f"{step}.jsonl").read_text().splitlines():
            row = json.loads(line)
            groups[row["uid"].rsplit("_", 2)[0]].append(row)
        return list(groups.values())


def knobs(assets: Path, out: Path, gpus: int) -> dict[str, str]:
    """The environment variables of a recipe that make it a short run of a tiny model."""
    return {
        "MODEL_PATH": str(assets / "model"),
        "DATA_DIR": str(assets / "data"),
        "OUT_DIR": str(out),
        "VAL_SETS": "aime24",
        "NGPUS_PER_NODE": str(gpus),
        "STEPS": "2",
        "SAVE_FREQ": "2",
        "TEST_FREQ": "2",
        "TRAIN_BATCH_SIZE": str(PROMPTS),
        "MAX_PROMPT_LENGTH": "160",
        "MAX_RESPONSE_LENGTH": "12",
        "PPO_MAX_TOKEN_LEN_PER_GPU": "2048",
    }


def arguments(out: Path) -> list[str]:
    """What is put on the recipe's command line, so that more can be looked at."""
    return [
        "actor_rollout_ref.rollout.calculate_log_probs=True",
        f"trainer.rollout_data_dir='{out / 'rollouts'}'",
        f"hydra.run.dir='{out / 'hydra'}'",
    ]


def run_recipe(name: str, assets: Path, folder: Path, gpus: int, check: bool) -> RecipeRun:
    """Run a recipe to its end.

    Args:
        name: Its name, without ``run_`` and ``.sh``.
        assets: Folder that `save_assets` has filled.
        folder: Empty folder of this run.
        gpus: Processes that stand for GPUs.
        check: Whether the recipe first checks its config, which takes as long as a third of the run.
    """
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {PYTHON_ON_A_CPU} "$@"\n')
    python.chmod(0o755)
    out = folder / "out"
    environment = {**os.environ, **knobs(assets, out, gpus), "PYTHON": str(python), "SKIP_CHECK": str(int(not check))}
    process = subprocess.Popen(
        ["bash", str(RECIPES / f"run_{name}.sh"), *arguments(out)],
        env=environment,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        log, _ = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.terminate()  # the launcher ends all that it has started
        log, _ = process.communicate()
    assert process.returncode == 0, log[-6000:]
    return RecipeRun(out, log)


def save_assets(folder: Path) -> Path:
    """Save the model and the data of all recipes under a folder."""
    _save_model(folder / "model")
    _save_data(folder / "data")
    return folder


def _save_model(folder: Path) -> None:
    """A tiny Qwen2 that answers 1 or 2, in a box, whatever it is asked: the grader finds some right and some wrong."""
    tokenizer = build_tokenizer()
    model = build_model(tokenizer, WarmUp())
    prompt = tokenizer.apply_chat_template(user_message("What is 1 + 1?"), add_generation_prompt=True, tokenize=False)
    rows = [tokenizer(f"{prompt}\\boxed{{{answer}}}{END}", add_special_tokens=False).input_ids for answer in IN_REACH]
    input_ids, start = torch.tensor(rows), len(tokenizer(prompt, add_special_tokens=False).input_ids)
    labels = input_ids.clone()
    labels[:, :start] = -100
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model.train()
    for _ in range(60):
        optimizer.zero_grad()
        model(input_ids=input_ids, labels=labels).loss.backward()
        optimizer.step()
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _save_data(folder: Path) -> None:
    """The files that the recipes expect: problems whose answer the model may give, and as many whose it cannot."""
    for name, count in (("skywork", PROMPTS), ("aime24", 2)):
        golds = [(*IN_REACH[:1], OUT_OF_REACH)[number % 2] for number in range(count)]
        problems = [
            Problem(str(number), number, f"What is {number} + {number}?", (gold,)) for number, gold in enumerate(golds)
        ]
        write_all(folder, name, verl_rows(SOURCES[name], problems), {}, [])
