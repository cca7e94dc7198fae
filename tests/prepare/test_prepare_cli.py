# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The command line of ``epgrpo prepare``."""

from __future__ import annotations

import re

import pytest
from published import published_rows, write_jsonl
from typer.testing import CliRunner

from epgrpo_verl.data import SOURCES, files
from epgrpo_verl.data.cli import app


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def one_line(text):
    return re.sub(r"\s+", " ", text)


def test_help_names_every_source():
    result = run("--help")
    assert result.exit_code == 0
    assert all(name in result.output for name in SOURCES)


def test_the_path_is_all_that_goes_to_stdout(tmp_path):
    file = write_jsonl(tmp_path / "a.jsonl", published_rows("aime24"))
    result = run("aime24", "--file", file, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{tmp_path}/out/aime24.parquet\n"
    assert "30 of 30 rows" in result.stderr
    assert files.sha256_of(file) in one_line(result.stderr)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("math500", "--file", "missing.jsonl"), "epgrpo prepare math500: there is no file missing.jsonl"),
        (("math500", "amc23", "--rows", 5), "give one NAME with them"),
        (("skywork", "--min-difficulty", 9, "--max-difficulty", 3), "--min-difficulty 9 is above --max-difficulty 3"),
    ],
)
def test_mistakes_end_with_a_message_and_code_1(arguments, message, tmp_path):
    result = run(*arguments, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert message in one_line(result.stderr)
    assert "Traceback" not in result.output
    assert not (tmp_path / "out").exists()


def test_an_unknown_name_is_refused():
    result = run("math501")
    assert result.exit_code == 2
    assert "math501" in result.output
