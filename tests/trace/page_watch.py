# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What the tests of pages in a browser share: sizes of windows, and a record of what a page did."""

from __future__ import annotations

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
