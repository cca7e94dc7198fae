# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Downloading, against a small server that answers as the hub does, with the real client."""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from published import published_rows

from epgrpo_verl.data import SOURCES, PrepareError
from epgrpo_verl.data.prepare import Options, prepare

CONTENT = "".join(json.dumps(row) + "\n" for row in published_rows("aime25")).encode()
SHA256 = hashlib.sha256(CONTENT).hexdigest()
AIME25 = replace(SOURCES["aime25"], sha256=SHA256)


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """Serves `CONTENT` as AIME25's file at the pinned commit, and lists the paths asked for."""
    asked: list[str] = []
    path = f"/datasets/{AIME25.repo}/resolve/{AIME25.revision}/{AIME25.file}"

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.answer(with_body=False)

        def do_GET(self):
            self.answer(with_body=True)

        def answer(self, with_body):
            asked.append(self.path)
            if self.path != path:
                self.send_response(404)
                self.send_header("X-Error-Code", "EntryNotFound" if "/resolve/" in self.path else "RepoNotFound")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(200)
            self.send_header("X-Repo-Commit", AIME25.revision)
            self.send_header("ETag", f'"{SHA256}"')
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            if with_body:
                self.wfile.write(CONTENT)

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    yield asked
    server.shutdown()
    server.server_close()


def test_the_pinned_commit_is_downloaded_and_checked(hub, tmp_path):
    report = prepare(AIME25, Options(out=tmp_path / "out"))
    assert report.rows_out == 30
    assert all(AIME25.revision in path for path in hub if "resolve" in path)
    manifest = json.loads((tmp_path / "out" / "aime25.manifest.json").read_text())
    assert manifest["source"] == {
        "repo": "math-ai/aime25",
        "revision": AIME25.revision,
        "file": "test.jsonl",
        "sha256": SHA256,
        "sha256_expected": SHA256,
    }


def test_a_changed_file_on_the_hub_is_refused(hub, tmp_path):
    with pytest.raises(PrepareError, match=f"has the sha256 {SHA256}, not b4e273c0"):
        prepare(SOURCES["aime25"], Options(out=tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_missing_revision_names_the_file_to_get(hub, tmp_path):
    with pytest.raises(PrepareError, match=r"test.jsonl of math-ai/aime25 at main could not.*pass it with --file"):
        prepare(AIME25, Options(out=tmp_path / "out", revision="main"))


def test_an_unreachable_hub_names_the_file_to_get(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    with pytest.raises(PrepareError, match=r"could not be downloaded.*resolve/563bb84.*--file"):
        prepare(AIME25, Options(out=tmp_path / "out"))
    assert not (tmp_path / "out").exists()
