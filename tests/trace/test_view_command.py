# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""``epgrpo view`` without a browser: the file it makes, and what it says when it cannot."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from trace_batches import HOSTILE, write_trace
from typer.testing import CliRunner

from epgrpo_verl.cli import app as epgrpo
from epgrpo_verl.trace.reader import read_trace
from epgrpo_verl.view.command import app
from epgrpo_verl.view.page import json_in_html


def invoke(*args: object):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def parts(page: str) -> dict[str, str]:
    """The three elements of the page whose text is not markup."""
    data, script = re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL)
    return {"data": data, "script": script, "style": re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]}


def test_the_data_comes_back_from_the_page_as_it_was_and_has_no_markup(viewer: Path):
    text = parts(viewer.read_text())["data"]
    assert not re.search("[<>&\u2028\u2029]", text)
    data, steps = json.loads(text), read_trace(viewer.parent)
    assert [step["step"] for step in data["steps"]] == [1, 10]
    for shown, step in zip(data["steps"], steps, strict=True):
        for group, source in zip(shown["groups"], step.groups, strict=True):
            assert group["prompt"] == source["prompt"]
            for response, read in zip(group["responses"], source["responses"], strict=True):
                assert response.items() <= read.items()
    assert set(HOSTILE) <= {
        token for group in data["steps"][0]["groups"] for r in group["responses"] for token in r["tokens"]
    }


def test_the_policy_names_the_one_script_and_the_one_style_and_allows_nothing_else(viewer: Path):
    page = viewer.read_text()
    policy = re.search('http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    for name in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(parts(page)[name].encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    without_data = page.replace(parts(page)["data"], "")
    assert not re.search(r"https?://|\bsrc=|@import|url\(|innerHTML|insertAdjacent|eval\(", without_data)


@pytest.mark.parametrize("text", ["</script>", "\u2028", "a&b", "<!--", '"\\'])
def test_json_in_html_is_the_same_json(text):
    assert json.loads(json_in_html({text: [text]})) == {text: [text]}


def test_out_and_step(tmp_path):
    folder = write_trace(tmp_path / "run", steps=[1, 10])
    done = invoke(folder, "--step", 10, "-o", tmp_path / "new" / "page.html")
    assert done.exit_code == 0 and "page.html" in done.stdout
    data = json.loads(parts((tmp_path / "new" / "page.html").read_text())["data"])
    assert [step["step"] for step in data["steps"]] == [10]
    assert invoke(folder / "step_000001.jsonl.gz").exit_code == 0
    assert (folder / "step_000001.html").exists()


def test_what_cannot_be_shown_is_said_in_one_line(tmp_path):
    folder = write_trace(tmp_path / "run", steps=[1])
    (folder / "step_000002.jsonl.gz").write_bytes(b"x")
    for args, words in {
        (tmp_path / "gone",): "no such file or folder",
        (tmp_path,): "no trace in this folder",
        (folder,): "step_000002.jsonl.gz: not a trace",
        (folder / "step_000001.jsonl.gz", "--step", 5): "no step 5 in this trace; it has 1",
        (folder / "step_000001.jsonl.gz", "-o", folder / "step_000001.jsonl.gz" / "x.html"): "cannot be written",
    }.items():
        done = invoke(*args)
        assert done.exit_code == 1 and words in done.stderr and "Traceback" not in done.output
        assert len(done.stderr.strip().splitlines()) == 1


def test_help_tells_how_to_get_a_trace():
    done = invoke("--help")
    assert "+algorithm.ep_grpo.trace_dir=" in done.stdout and "epgrpo view" in done.stdout
    assert "view" in CliRunner().invoke(epgrpo, ["--help"]).stdout


def test_it_needs_neither_torch_nor_verl(tmp_path):
    folder = write_trace(tmp_path, steps=[1])
    code = (
        "import sys; sys.modules['torch'] = sys.modules['verl'] = None\n"
        "from epgrpo_verl.cli import app; app(['view', sys.argv[1]])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
