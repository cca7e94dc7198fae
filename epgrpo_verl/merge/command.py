# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""``epgrpo merge``: the command line."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import torch
import typer
from rich.console import Console
from rich.progress import Progress

from epgrpo_verl.doctor.report import Check, Status, as_json, show, worst

from .errors import MergeError

if TYPE_CHECKING:
    from .trained import Trained

app = typer.Typer(add_completion=False, rich_markup_mode=None)

REPORT = "merge_report.json"
Dtype = Enum("Dtype", {name: name for name in ("auto", "bfloat16", "float16", "float32")}, type=str)


@app.command("merge", no_args_is_help=True)
def merge_command(
    checkpoint: Annotated[
        Path,
        typer.Argument(
            metavar="CHECKPOINT",
            help="global_step_N of verl's FSDP engine, its actor folder, or the folder of all steps.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The Hugging Face folder to write.")],
    base: Annotated[
        str | None,
        typer.Option(help="The model that the training started from: a folder or a hub name. Only LoRA does without."),
    ] = None,
    dtype: Annotated[
        Dtype, typer.Option(help="Of the written weights. auto: the base's if --base is given, else the checkpoint's.")
    ] = Dtype.auto,
    lora_alpha: Annotated[
        float | None, typer.Option(help="LoRA's alpha, where the checkpoint does not say it or says it wrongly.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace --out if it exists.")] = False,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run the model's own code, as verl's setting of that name.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Turn a checkpoint of verl into a Hugging Face folder, LoRA fused, and prove that it is right.

    Loads what it wrote and compares every tensor with the checkpoint: changed by the training, equal to
    base + scaling * B A up to one rounding, none missing; tokenizer, chat template and generation config are those of
    the training. If anything fails, no folder is left. The report is also written into the folder.

    Exit code: 1 if the proof failed or the checkpoint cannot be merged, else 0.

    The shards are pickle files: merge only checkpoints that you trust.

    Examples:

    \b
    A LoRA run:
      epgrpo merge runs/3b/checkpoints/global_step_1000 --base Qwen/Qwen2.5-3B --out merged/3b

    \b
    The last step of a full fine-tuning run, as verl's own merger would round it:
      epgrpo merge runs/full/checkpoints --base Qwen/Qwen2.5-3B --dtype bfloat16 --out merged/full
    """
    console = Console(stderr=True)
    try:
        with _quiet():
            checks, about = merge(
                checkpoint.expanduser(),
                out.expanduser(),
                base,
                dtype.value,
                lora_alpha,
                overwrite,
                trust_remote_code,
                console,
            )
    except MergeError as error:
        console.print(f"epgrpo merge: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from None
    bad = worst(checks) is Status.FAILED
    if json:
        typer.echo(as_json(checks, about))
    else:
        show(Console(), checks, about)
        typer.echo(f"nothing was written to {out}" if bad else f"written: {out}")
    raise typer.Exit(1 if bad else 0)


class _Failed(Exception):
    """Leaves the block of an unfinished folder."""


def merge(
    checkpoint: Path,
    out: Path,
    base: str | None = None,
    dtype: str = "auto",
    lora_alpha: float | None = None,
    overwrite: bool = False,
    trust_remote_code: bool = False,
    console: Console | None = None,
) -> tuple[list[Check], dict[str, Any]]:
    """Merges a checkpoint into a folder. See `merge_command`.

    Returns:
        What was proved, and what it was proved about. If a check failed, there is no folder.

    Raises:
        MergeError: The checkpoint cannot be merged.
    """
    from . import write
    from .checkpoint import find_actor, step_of
    from .proof import prove
    from .trained import read_trained

    actor = find_actor(checkpoint)
    with Progress(console=console or Console(quiet=True), transient=True) as progress:
        task = progress.add_task("reading", total=None)
        tensors = load_base(base, actor, trust_remote_code) if base is not None else None
        trained = read_trained(actor, tensors, lora_alpha)
        target_dtype = _choose_dtype(dtype, trained.base, trained.checkpoint)
        about = {
            "step": step_of(actor),
            "base": base or "in the checkpoint",
            "dtype": str(target_dtype).removeprefix("torch."),
            "shards": trained.checkpoint.world_size,
        }
        checks: list[Check] = []
        try:
            with write.finished_folder(out, overwrite) as folder:
                merger = write.open_merger(actor, folder, trust_remote_code)
                _check_model(write.empty_model(merger), trained)
                progress.update(task, description="writing")
                write.write(trained, merger, target_dtype)
                source = write.add_generation_config(merger, base)
                progress.update(task, description="proving", total=len(trained.names), completed=0)
                checks = prove(trained, merger, source, lambda: progress.advance(task))
                if worst(checks) is Status.FAILED:
                    raise _Failed
                (folder / REPORT).write_text(as_json(checks, about) + "\n", encoding="utf-8")
        except _Failed:
            pass
    return checks, about


def load_base(base: str, actor: Path, trust_remote_code: bool = False) -> Mapping[str, torch.Tensor]:
    """Loads the tensors of the model that the training started from, in the dtype of its files.

    Raises:
        MergeError: It cannot be loaded.
    """
    from .write import open_merger

    model_class = open_merger(actor, actor, trust_remote_code).get_transformers_auto_model_class()
    try:
        model = model_class.from_pretrained(base, dtype="auto", trust_remote_code=trust_remote_code)
    except Exception as error:
        raise MergeError(f"--base {base} cannot be loaded: {error}") from error
    return model.state_dict()


def _choose_dtype(wanted: str, *sources: Mapping[str, torch.Tensor] | None) -> torch.dtype:
    if wanted != "auto":
        return getattr(torch, wanted)
    source = next(source for source in sources if source is not None)
    dtypes = [tensor.dtype for tensor in (source[name] for name in source) if tensor.is_floating_point()]
    return max(set(dtypes), key=dtypes.count)


def _check_model(model: torch.nn.Module, trained: Trained) -> None:
    """Refuses, before anything is written, what the equation does not hold for."""
    for name in trained.layout.factors:
        path = name.rpartition(".")[0]
        try:
            module = model.get_submodule(path)
        except AttributeError:
            raise MergeError(f"the adapter is on {path}, which {type(model).__name__} does not have") from None
        if not isinstance(module, torch.nn.Linear):
            raise MergeError(f"the adapter is on {path}, a {type(module).__name__}: only linear maps are fused")


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences the remarks of verl and transformers, which run through the progress bar."""
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)
