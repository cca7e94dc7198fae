# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs code in processes in which verl was not imported yet, without paying for the import of torch and Ray each time.

The processes are forked from a server that has imported what verl imports, but neither verl nor the plugin.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import traceback
from dataclasses import dataclass
from multiprocessing import forkserver
from pathlib import Path

HEAVY = ("torch", "ray", "transformers", "tensordict", "datasets", "hydra", "peft", "fastapi", "transfer_queue")
"""Imported once, in the server; one that is not installed is skipped."""

SETTINGS = ("VERL_PLATFORM", "VERL_USE_EXTERNAL_PLUGINS", "VERL_USE_EXTERNAL_MODULES")
"""Taken out of the environment: another test of the same session may have set them."""


@dataclass(frozen=True)
class Done:
    """How a process ended: exit code, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def last_line(self) -> str:
        """The last line of the output of a process that went well."""
        assert self.code == 0, self.err
        return self.out.strip().splitlines()[-1]


def run(code: str, *, timeout: float = 300, **env: str) -> Done:
    """Run Python code as a script in a fresh process, with ``env`` added to the environment."""
    context = multiprocessing.get_context("forkserver")
    if forkserver._forkserver._preload_modules != list(HEAVY):
        forkserver._forkserver._stop()  # that of another test may have imported verl, and with it the plugin
    context.set_forkserver_preload(list(HEAVY))
    with tempfile.TemporaryDirectory() as folder:
        process = context.Process(target=_script, args=(code, env, folder))
        process.start()
        process.join(timeout)
        if process.is_alive():
            process.kill()
            process.join()
        out, err = (Path(folder, name).read_text() for name in ("out", "err"))
    return Done(process.exitcode, out, err)


def _script(code: str, env: dict[str, str], folder: str) -> None:
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT), number)
    for name in SETTINGS:
        os.environ.pop(name, None)
    os.environ.update(env)
    assert "verl" not in sys.modules and "epgrpo_verl" not in sys.modules
    status = 0
    try:
        exec(compile(code, "<script>", "exec"), {"__name__": "__main__"})
    except SystemExit as error:
        status = int(error.code or 0)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
