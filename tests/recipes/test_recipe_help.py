# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""`--help` of every recipe: it is made of the lines that read the knobs, so it can neither lack nor invent one."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from recipe_configs import LIB, RECIPES

SCRIPTS = sorted(RECIPES.glob("run_*.sh"))
CPU = [script for script in SCRIPTS if script.name.startswith("run_cpu_")]
ENVIRONMENT = RECIPES.parent / "scripts" / "environment.sh"

# Read from the environment, or unset at times, and no knobs: nobody has to know them to use a recipe.
NOT_KNOBS = {"EPGRPO_HELP", "HOME", "OMP_NUM_THREADS", "VERL_FILE_LOGGER_PATH", "EXTRA_PACKAGE", "MAX_MODEL_LEN"}


def run(script: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    base = {"PATH": os.environ["PATH"], "HOME": "/home/someone"}
    return subprocess.run(
        ["bash", str(script), *arguments], env=base | environment, capture_output=True, text=True, timeout=60
    )


def help_text(script: Path, *arguments: str, **environment: str) -> str:
    done = run(script, *(arguments or ("--help",)), **environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def knobs(text: str) -> dict[str, tuple[str, str]]:
    """Default and description of each knob that a help text lists."""
    short = re.findall(r"^  ([A-Z][A-Z0-9_]*)=(.{0,22}?) {2,}(\S.*)$", text, re.MULTILINE)
    long = re.findall(r"^  ([A-Z][A-Z0-9_]*)=(.+)\n {28}(\S.*)$", text, re.MULTILINE)
    return {name: (default, about) for name, default, about in [*short, *long]}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_every_variable_that_a_recipe_reads_is_listed_with_a_description(script):
    files = [script, LIB / "cpu_run.sh", ENVIRONMENT] if script in CPU else [script, LIB / "paper.sh"]
    read = set(re.findall(r"\$\{([A-Z][A-Z0-9_]*):-", "".join(file.read_text() for file in files)))
    fixed = set(re.findall(r"^([A-Z_]+)=[^$]", script.read_text(), re.MULTILINE))
    listed = knobs(help_text(script))
    assert set(listed) == read - fixed - NOT_KNOBS
    assert len(listed) > 15


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_the_help_says_what_the_recipe_does_and_how_to_call_it(script):
    text = help_text(script)
    about = next(line for line in script.read_text().splitlines()[3:] if line.startswith("# ")).removeprefix("# ")
    assert about in text
    assert text.startswith(f"usage: [KNOB=value ...] bash {script} ")
    assert f"  DRY_RUN=1 bash {script}\n" in text
    assert "Copyright" not in text and "shellcheck" not in text and "RECIPE" not in text
    assert help_text(script, "-h") == help_text(script, "data.seed=3", "--help") == text


def test_the_defaults_are_those_of_the_recipe_whatever_is_set():
    quickstart, smollm2 = CPU
    listed = knobs(help_text(quickstart, STEPS="7", ADV="nonsense", DIFFICULTY="hard"))
    train = run(quickstart, DRY_RUN="1").stdout
    assert f"--steps {listed['STEPS'][0]} " in train
    assert f"optim.lr={listed['LR'][0]} " in train
    assert f"rollout.temperature={listed['TEMPERATURE'][0]} " in train
    assert f"--out {listed['OUT'][0]} " in train
    assert (listed["DIFFICULTY"][0], listed["ADV"][0]) == ("easy", "ep_grpo")
    assert f"rollout.temperature={knobs(help_text(smollm2))['TEMPERATURE'][0]} " in run(smollm2, DRY_RUN="1").stdout


def test_the_defaults_of_the_papers_recipes_follow_the_size_and_the_variant():
    listed = {script.stem: knobs(help_text(script)) for script in SCRIPTS if script not in CPU}
    assert listed["run_qwen2.5_7b_grpo"]["NGPUS_PER_NODE"][0] == "4"
    assert listed["run_qwen2.5_3b_grpo"]["MODEL_PATH"][0] == "Qwen/Qwen2.5-3B"
    assert listed["run_qwen2.5_3b_grpo_high_temperature"]["TEMPERATURE"][0] == "1.2"
    assert listed["run_qwen2.5_3b_epgrpo"]["DATA_DIR"][0] == "/home/someone/data/epgrpo"
    assert "ADV_ESTIMATOR" in listed["run_qwen2.5_3b_epgrpo"]
    assert "ADV_ESTIMATOR" not in listed["run_qwen2.5_3b_grpo"]  # the recipe is the baseline, whatever is set


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_recipe_can_be_started_by_its_name(script):
    assert os.access(script, os.X_OK)
    assert script.read_text().startswith("#!/usr/bin/env bash\n")
