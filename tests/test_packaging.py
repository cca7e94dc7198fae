# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The wheel: what is in it, and what installing it would do to a working verl environment."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel, built from a copy of the sources without leaving anything in the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("epgrpo_verl", "pyproject.toml", "README.md", "LICENSE"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    project = folder / "pyproject.toml"
    # Newer than the one that is installed, so that pip would really install it.
    project.write_text(re.sub(r'^version = "(.*)"', r'version = "\1.post1"', project.read_text(), flags=re.MULTILINE))
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--wheel-dir", str(folder / "dist"), str(folder)], check=True, timeout=300)
    return next((folder / "dist").glob("*.whl"))


def test_the_wheel_has_the_package_its_types_its_licence_and_its_entry_point(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        entry_points = next(archive.read(name).decode() for name in names if name.endswith("entry_points.txt"))
    sources = [path for path in (ROOT / "epgrpo_verl").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert {str(path.relative_to(ROOT)) for path in sources} <= set(names), (
        "modules, and the files of the viewer's page"
    )
    assert "epgrpo_verl/py.typed" in names
    assert any(name.endswith("LICENSE") for name in names)
    assert "[verl.plugins]\nepgrpo_verl = epgrpo_verl.plugin.entry" in entry_points
    assert not any(name.startswith("tests") for name in names)


def test_installing_the_wheel_moves_no_package_of_this_verl_environment(wheel, tmp_path):
    """pip, asked what it would do, names the plugin alone; without an index it could not fetch anything else."""
    report = tmp_path / "report.json"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--no-index", "--report", str(report)]
    subprocess.run([*pip, str(wheel)], check=True, timeout=300)
    installs = json.loads(report.read_text())["install"]
    assert [item["metadata"]["name"] for item in installs] == ["epgrpo_verl"]
    core = [line for line in installs[0]["metadata"]["requires_dist"] if "extra ==" not in line]
    assert set(core) == {"torch", "wrapt"}, "the core asks for no more, and pins no version"
