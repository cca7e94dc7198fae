# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Getting a published file, checking it, and reading its rows."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from .errors import PrepareError
from .sources import Source


def fetch(source: Source, revision: str) -> Path:
    """Download a file from the hub, or find it in its cache.

    ``HF_ENDPOINT`` names another hub, as for huggingface_hub.

    Raises:
        PrepareError: It cannot be had.
    """
    try:
        from huggingface_hub import hf_hub_download
    except ImportError as error:
        raise PrepareError(
            f"downloading needs huggingface_hub: pip install huggingface_hub, or pass --file with {source.url()}"
        ) from error
    try:
        path = hf_hub_download(
            source.repo,
            source.file,
            repo_type="dataset",
            revision=revision,
            endpoint=os.environ.get("HF_ENDPOINT"),
        )
    except Exception as error:
        cause = " ".join(str(error).split())
        raise PrepareError(
            f"{source.file} of {source.repo} at {revision} could not be downloaded: {type(error).__name__}: {cause} "
            f"Without access to the hub, get {source.url(revision)} elsewhere and pass it with --file."
        ) from error
    return Path(path)


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, as hexadecimal text."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a parquet, JSON Lines or JSON file, by its suffix.

    Raises:
        PrepareError: The file is missing, of another kind, or cannot be read; for JSON Lines with the line's number.
    """
    if not path.is_file():
        raise PrepareError(f"there is no file {path}")
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return pq.read_table(path).to_pylist()
        except (pa.ArrowException, OSError) as error:
            raise PrepareError(f"{path} cannot be read as parquet: {error}") from error
    if path.suffix == ".jsonl":
        return _read_jsonl(path)
    if path.suffix == ".json":
        try:
            rows = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise PrepareError(f"{path} cannot be read as JSON: {error}") from error
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise PrepareError(f"{path} is not a JSON list of objects")
        return rows
    raise PrepareError(f"{path} is neither .parquet, .jsonl nor .json")


def _read_jsonl(path: Path) -> list[dict[str, Any]]:
    rows = []
    # Not splitlines: a problem may hold characters that it takes for line ends.
    with path.open(encoding="utf-8", newline="\n") as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line, strict=False)
            except ValueError as error:
                raise PrepareError(f"{path}, line {number}: {error}") from error
            if not isinstance(row, dict):
                raise PrepareError(f"{path}, line {number}: not a JSON object")
            rows.append(row)
    return rows


def check_file(source: Source, path: Path, sha256: str | None) -> dict[str, Any]:
    """Compare a file's checksum with the one that is asked for.

    Args:
        source: Where the file is from.
        path: The file.
        sha256: The checksum it must have, or None for any.

    Returns:
        What the manifest says about it: the checksum met, and the one it was compared with (or None).

    Raises:
        PrepareError: They differ.
    """
    met = sha256_of(path)
    if sha256 is not None and met != sha256.lower():
        raise PrepareError(
            f"{path} has the sha256 {met}, not {sha256}: it is not the {source.name} file of "
            f"{source.repo}@{source.revision}. If you changed or converted it on purpose, pass --sha256 {met}."
        )
    return {"sha256": met, "sha256_expected": sha256}
