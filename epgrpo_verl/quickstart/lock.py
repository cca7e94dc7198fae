# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""A folder that one run at a time may write to.

The kernel holds the lock (``flock``) for as long as a process has the file open, and no longer, however it ends.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

LOCK_FILE = ".lock"
"""Stays in the folder: removing it would give two processes two files to lock."""


class FolderInUseError(RuntimeError):
    """Another process holds the folder."""


def lock_folder(folder: Path, wait: bool = False) -> IO[str]:
    """Takes the lock of a folder, which has to exist.

    Args:
        folder: The folder.
        wait: Whether to wait until another process has released it.

    Returns:
        The file that holds the lock; closing it releases the lock, unless a child has inherited it.

    Raises:
        FolderInUseError: Another process holds the lock, and ``wait`` is false.
        OSError: The folder cannot be written to, or its file system has no locks.
    """
    file = (folder / LOCK_FILE).open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        file.seek(0)
        holder = file.read().strip()
        file.close()
        raise FolderInUseError(
            f"another run (process {holder or 'unknown'}) is writing to {folder}: wait until it has ended, or set OUT "
            "to another folder"
        ) from None
    except OSError:
        file.close()
        raise
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file
