# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What the tests of pages in a browser share: sizes of windows, opening a page, and a record of what a page did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 375, "height": 720}


class Seen:
    """What a page did: requests, messages of errors, dialogs."""

    def __init__(self, page):
        self.requests: list[str] = []
        self.errors: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        page.on("dialog", lambda dialog: self.errors.append("dialog") or dialog.dismiss())


@contextmanager
def page_opener(browser, file: Path) -> Iterator[Callable]:
    """Gives a function that opens a page from its file, and closes the pages at the end; see ``page.seen``."""
    pages = []

    def open_(size=DESKTOP):
        page = browser.new_page(viewport=size)
        pages.append(page)
        page.seen = Seen(page)
        page.goto(file.as_uri())
        return page

    yield open_
    for page in pages:
        page.close()
