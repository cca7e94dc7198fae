# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the Hugging Face folder with verl's own merger, beside its place first."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from accelerate import init_empty_weights
from transformers import AutoConfig, GenerationConfig, PreTrainedModel

from .errors import MergeError
from .trained import Trained

if TYPE_CHECKING:
    from verl.model_merger.fsdp_model_merger import FSDPModelMerger

WORKING_DTYPE = torch.float32
"""LoRA is fused in this dtype, and rounded once."""


@contextlib.contextmanager
def finished_folder(target: Path, overwrite: bool = False) -> Iterator[Path]:
    """Gives an empty folder beside the target, which becomes the target if the block ends well, and else is removed.

    Raises:
        MergeError: The target exists, and is not to be replaced.
    """
    if target.exists() and not (target.is_dir() and (overwrite or not any(target.iterdir()))):
        raise MergeError(f"{target} exists. Name another --out, or replace it with --overwrite.")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as unfinished:
        folder = Path(unfinished) / "new"
        folder.mkdir()
        yield folder
        old = Path(unfinished) / "old"
        if target.exists():
            os.replace(target, old)
        try:
            os.replace(folder, target)
        except OSError:
            if old.exists():
                os.replace(old, target)
            raise


def open_merger(actor: Path, target: Path, trust_remote_code: bool = False) -> FSDPModelMerger:
    """Opens verl's merger on the configuration and tokenizer that verl saved beside the shards.

    Raises:
        MergeError: They are missing, or transformers cannot read them.
    """
    from verl.model_merger.base_model_merger import ModelMergerConfig
    from verl.model_merger.fsdp_model_merger import FSDPModelMerger

    saved = actor / "huggingface"
    if not (saved / "config.json").is_file():
        raise MergeError(f"{saved}/config.json is missing: verl saves it with every checkpoint; copy the whole folder")
    config = ModelMergerConfig(
        operation="merge",
        backend="fsdp",
        local_dir=str(actor),
        target_dir=str(target),
        hf_model_config_path=str(saved),
        trust_remote_code=trust_remote_code,
    )
    try:
        return FSDPModelMerger(config)
    except Exception as error:
        raise MergeError(f"{saved}/config.json cannot be read: {error}") from error


def empty_model(merger: FSDPModelMerger) -> PreTrainedModel:
    """Builds the model without memory for its weights, for the names and kinds of its parts."""
    with init_empty_weights():
        model = merger.get_transformers_auto_model_class().from_config(
            merger.model_config, trust_remote_code=merger.config.trust_remote_code
        )
    model.tie_weights()
    return model


def tied_names(model: PreTrainedModel) -> dict[str, str]:
    """Name of each parameter that is the same as another one, to the name of that."""
    first: dict[int, str] = {}
    tied = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        other = first.setdefault(id(parameter), name)
        if other != name:
            tied[name] = other
    return tied


def write(trained: Trained, merger: FSDPModelMerger, dtype: torch.dtype) -> None:
    """Writes weights, configuration, generation config and tokenizer into the merger's target folder.

    Args:
        trained: What to write.
        merger: From `open_merger`.
        dtype: Of all floating-point weights in the files.

    Raises:
        MergeError: verl's merger could not write it.
    """
    tensors = {}
    for name in sorted(trained.names):
        after = trained.after(name, WORKING_DTYPE)
        tensors[name] = (after.to(dtype) if after.is_floating_point() else after).contiguous()
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            merger.save_hf_model_and_tokenizer(tensors)
    except Exception as error:
        raise MergeError(f"verl's merger could not write the model: {error}") from error
    # verl's merger takes every model to be bfloat16.
    config = AutoConfig.from_pretrained(merger.config.target_dir, trust_remote_code=merger.config.trust_remote_code)
    config.dtype = dtype
    config.save_pretrained(merger.config.target_dir)


def add_generation_config(merger: FSDPModelMerger, base: str | None) -> str:
    """Takes the generation config from the base where the checkpoint has none.

    Returns:
        Where it is from: "checkpoint", "base", or "" if neither has one.
    """
    if (Path(merger.hf_model_config_path) / "generation_config.json").is_file():
        return "checkpoint"
    if base is None:
        return ""
    try:
        GenerationConfig.from_pretrained(base).save_pretrained(merger.config.target_dir)
    except OSError:
        return ""
    return "base"
