# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""What writer and reader of a trace agree on."""

SCHEMA = "epgrpo_verl.trace"
"""The header's ``schema``: by this a file is known to be a trace."""
VERSION = 1
"""The header's ``version``. It goes up when a reader of the old format would read a new file wrongly."""
QUANTITIES = (
    "entropy",
    "gate",
    "progress_coordinate",
    "bucket",
    "log_ratio",
    "outcome",
    "progress",
    "advantage",
)
"""Per-token lists of each response. One that was not computed is null as a whole; masked tokens have null in it."""
SUFFIX = ".jsonl.gz"
"""How the name of a trace file ends."""


class TraceError(ValueError):
    """A file is no trace that can be read; the message names the file, the line and what is wrong."""
