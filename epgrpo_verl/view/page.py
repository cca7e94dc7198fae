# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Makes one HTML file out of a trace. It holds everything it needs, and loads nothing.

Prompts and responses are what a model wrote, so they are not trusted. They are in the page as JSON without any
character that HTML gives a meaning, the script puts them in as text only, and the page's Content-Security-Policy
allows that one script by its hash and nothing else: no other script, no request.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from ..trace.format import QUANTITIES
from ..trace.reader import TraceStep

SCRIPTS = ("colour.js", "quantities.js", "viewer.js")
"""One script in several files, in this order."""
_ESCAPES = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})
_RESPONSE = ("reward", "votes", "grpo_advantage", "anchor", "ids", "tokens", "mask", *QUANTITIES)
_PROMPT = ("prompt", "prompt_ids")


def viewer_page(steps: Sequence[TraceStep], source: str) -> str:
    """Make the page.

    Args:
        steps: What `read_trace` gave; at least one.
        source: Where the trace is from, for the page to show.

    Returns:
        HTML.
    """
    static = files(__package__) / "static"
    script = "".join((static / name).read_text(encoding="utf-8") for name in SCRIPTS)
    style = (static / "viewer.css").read_text(encoding="utf-8")
    parts = {
        "script": script,
        "style": style,
        "script_hash": _csp_hash(script),
        "style_hash": _csp_hash(style),
        "data": json_in_html({"source": source, "steps": [_step(step) for step in steps]}),
    }
    template = (static / "viewer.html").read_text(encoding="utf-8")
    # In one pass: what is put in is not looked at again, whatever is written in it.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def json_in_html(value: Any) -> str:
    """JSON that is safe in a script element: ``<``, ``>``, ``&`` and U+2028/9, which only strings have, are escaped."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).translate(_ESCAPES)


def _csp_hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _step(step: TraceStep) -> dict[str, Any]:
    header = {name: step.header[name] for name in ("step", "part", "groups_in_batch", "config")}
    return {**header, "groups": [_group(group) for group in step.groups]}


def _group(group: Mapping[str, Any]) -> dict[str, Any]:
    kept = {"group": group["group"], "zero_variance": group["zero_variance"], **_prompt(group)}
    return {**kept, "responses": [_response(response) for response in group["responses"]]}


def _response(response: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: response.get(name) for name in _RESPONSE}
    return {**kept, **(_prompt(response) if "prompt_ids" in response else {})}


def _prompt(record: Mapping[str, Any]) -> dict[str, Any]:
    """The text of a prompt; the ids where there is no text."""
    text = record.get("prompt")
    return {"prompt": text, "prompt_ids": record["prompt_ids"] if text is None else []}
