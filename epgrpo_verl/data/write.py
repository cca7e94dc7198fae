# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Writing the prepared rows, the manifest and the list of dropped problems: all of them, or none."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .filters import Dropped
from .problems import Problem
from .prompt import user_message
from .sources import Source


def verl_rows(source: Source, problems: Sequence[Problem]) -> list[dict[str, Any]]:
    """The rows of verl's data sets. All sources have the same columns, so that verl can join their files."""
    return [
        {
            "data_source": source.name,
            "prompt": user_message(problem.text),
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": problem.ground_truth},
            "extra_info": {
                "split": source.split,
                "index": number,
                "id": problem.id,
                "problem": problem.text,
            },
        }
        for number, problem in enumerate(problems)
    ]


def rows_digest(rows: Sequence[dict[str, Any]]) -> str:
    """SHA-256 of the rows' content, which a parquet file's own bytes are not: they vary with pyarrow's version."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row, sort_keys=True, ensure_ascii=False).encode() + b"\n")
    return digest.hexdigest()


def write_all(
    folder: Path, name: str, rows: Sequence[dict[str, Any]], manifest: dict[str, Any], dropped: Sequence[Dropped]
) -> Path:
    """Write ``<name>.parquet``, ``<name>.manifest.json`` and ``<name>.dropped.jsonl``.

    Each is written under another name first and then renamed, the parquet file last: where it is, the others are too.

    Returns:
        The parquet file.
    """
    lines = "".join(json.dumps(asdict(item), ensure_ascii=False) + "\n" for item in dropped)
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    target = folder / f"{name}.parquet"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=f".{name}-") as unfinished:
        writers: dict[str, Callable[[Path], Any]] = {
            f"{name}.dropped.jsonl": lambda path: path.write_text(lines, encoding="utf-8"),
            f"{name}.manifest.json": lambda path: path.write_text(text, encoding="utf-8"),
            target.name: lambda path: _write_parquet(path, rows),
        }
        for file, write in writers.items():
            write(Path(unfinished) / file)
        for file in writers:
            os.replace(Path(unfinished) / file, folder / file)
    return target


def _write_parquet(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    text = pa.string()
    schema = pa.schema(
        {
            "data_source": text,
            "prompt": pa.list_(pa.struct({"role": text, "content": text})),
            "ability": text,
            "reward_model": pa.struct({"style": text, "ground_truth": text}),
            "extra_info": pa.struct({"split": text, "index": pa.int64(), "id": text, "problem": text}),
        }
    )
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), path)
