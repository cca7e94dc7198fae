# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""A real browser for the tests of pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def browser_program() -> str | None:
    """Path of a Chromium or Chrome: that of the environment variable CHROMIUM, or one on the PATH."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


# Not for the session: playwright's event loop runs until the fixture ends, and asyncio allows no other beside it.
@pytest.fixture(scope="module")
def browser() -> Iterator:
    """Headless Chromium, driven by playwright."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed (requirements/test.txt)"
    )
    program = browser_program()
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} on the PATH (apt-get install chromium, or set CHROMIUM)")
    with playwright.sync_playwright() as driver:
        # Chromium's sandbox needs user namespaces, which containers often lack.
        chromium = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield chromium
        chromium.close()
