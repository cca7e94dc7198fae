# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The command line: exit codes, table, JSON, and sub-commands that are loaded when called."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest
from doctor_configs import GOOD, changed, key_of
from rich.console import Console
from typer.testing import CliRunner

from epgrpo_verl import cli
from epgrpo_verl.doctor.report import Check, Status, failed, ok, show, warning, worst

NO_RAY = ("doctor", "--no-ray")


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli.app, arguments)
    return result.exit_code, result.stdout


def test_a_good_config_exits_with_0_and_shows_a_table():
    code, output = run(*NO_RAY, *GOOD)
    assert code == 0
    assert "temperature" in output and "failed" not in output


def test_a_warning_exits_with_0_and_a_failure_with_1_in_json():
    warned = changed(GOOD, ("actor_rollout_ref.rollout.n=1", "data.train_batch_size=9"))
    code, output = run(*NO_RAY, "--json", *warned)
    report = json.loads(output)
    assert (code, report["status"]) == (0, "warning")
    broken = (*warned, "algorithm.rollout_correction.bypass_mode=True")
    code, output = run(*NO_RAY, "--json", *broken)
    report = json.loads(output)
    assert (code, report["status"]) == (1, "failed")
    (check,) = [check for check in report["checks"] if check["status"] == "failed"]
    assert check["fix"] == ["algorithm.rollout_correction.bypass_mode=False"]
    assert set(check) == {"name", "status", "message", "fix"}
    assert set(report["versions"]) == {"epgrpo_verl", "verl", "python"}


def test_an_override_that_hydra_cannot_read_is_shown_and_not_a_traceback():
    code, output = run(*NO_RAY, *GOOD, "data.train_batch_size 8")
    assert code == 1
    assert "data.train_batch_size 8" in output and "Traceback" not in output


def test_lines_to_copy_are_printed_whole_on_a_narrow_terminal():
    line = "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4"
    console = Console(file=io.StringIO(), width=40)
    show(
        console,
        [failed("batch sizes", "[8, 3] does not divide", line), warning("group size", "n=1")],
        {"verl": "0.9.1"},
    )
    output = console.file.getvalue()
    assert f"  {line}\n" in output
    assert "[8, 3]" in output


@pytest.mark.parametrize(
    ("checks", "status"),
    [([], Status.OK), ([ok("a", "")], Status.OK), ([warning("a", ""), ok("b", "")], Status.WARNING)],
)
def test_the_worst_status_counts(checks: list[Check], status: Status):
    assert worst(checks) is status
    assert worst([*checks, failed("c", "")]) is Status.FAILED


def test_help_imports_neither_torch_nor_verl_and_teaches_with_examples():
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from epgrpo_verl import cli\n"
        "assert 'doctor' in CliRunner().invoke(cli.app, ['--help']).output\n"
        "output = CliRunner().invoke(cli.app, ['doctor', '--help']).output\n"
        "assert 'epgrpo doctor algorithm.adv_estimator=ep_grpo' in output, output\n"
        "assert not {'torch', 'verl', 'ray', 'transformers'} & set(sys.modules), sorted(sys.modules)\n"
    )
    environment = {key: value for key, value in os.environ.items() if key != "VERL_USE_EXTERNAL_MODULES"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_a_missing_package_is_named_with_what_to_install(monkeypatch):
    row = cli.Subcommand("epgrpo_verl.not_loaded", "Plot.", needs=("no_such_package",), install="matplotlib")
    monkeypatch.setitem(cli.SUBCOMMANDS, "plot", row)
    result = CliRunner().invoke(cli.app, ["plot", "a"])
    assert result.exit_code == 1
    assert "epgrpo plot needs no_such_package" in result.output
    assert "pip install matplotlib" in result.output


def test_every_row_of_the_table_can_be_loaded():
    for name in cli.SUBCOMMANDS:
        assert cli._load(name).name == name


def test_version_lists_what_it_runs_with():
    code, output = run("version")
    assert code == 0
    assert output.startswith("epgrpo_verl ") and "\nverl 0." in output and "\ntorch " in output


def test_good_is_a_config_with_one_line_of_ep_grpo():
    assert [item for item in GOOD if "ep_grpo" in item] == ["algorithm.adv_estimator=ep_grpo"]
    assert len({key_of(item) for item in GOOD}) == len(GOOD)
