# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as verl saves them: FSDP2 over gloo, verl's own checkpoint manager, in processes of their own."""

from __future__ import annotations

import copy
import multiprocessing
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.distributed
import torch.multiprocessing
from peft import LoraConfig, PeftModel, get_peft_model
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from epgrpo_verl.quickstart.model import WarmUp, build_model, build_tokenizer

RANK, ALPHA = 4, 12


def save_base(folder: Path, tie: bool = False, dtype: torch.dtype = torch.float32) -> Path:
    """A random Qwen2 of 7 x 2 + 3 weights whose sizes do not divide evenly among processes."""
    tokenizer = build_tokenizer()
    changes = {"vocab_size": 267, "intermediate_size": 45, "max_position_embeddings": 64, "initializer_range": 0.2}
    model = build_model(tokenizer, WarmUp(hidden_size=32), tie_word_embeddings=tie, **changes).to(dtype)
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, tokenizer.pad_token_id]
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def train(base: Path, lora: bool, targets: str | list[str] = "all-linear", scale: float = 0.05) -> torch.nn.Module:
    """The base in float32, as verl's actor holds it, with the weights moved that a training would move."""
    torch.manual_seed(1)
    model: PreTrainedModel | PeftModel = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    if lora:
        config = LoraConfig(task_type="CAUSAL_LM", r=RANK, lora_alpha=ALPHA, target_modules=targets, bias="none")
        model = get_peft_model(model, config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not lora or "lora_B" in name:
                parameter.add_(scale * torch.randn_like(parameter))
    return model


def save_checkpoint(
    model: torch.nn.Module, base: Path, folder: Path, world_size: int = 1, replicas: int = 1, lora_only: bool = False
) -> Path:
    """Shards the model over processes and lets verl save it.

    Returns:
        The actor's folder in ``folder/global_step_7``.
    """
    actor = folder / "global_step_7" / "actor"
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(model, folder / "model.pt")
    # A server that has imported verl once and is forked for each process: importing it takes most of the time.
    multiprocessing.set_forkserver_preload(["verl.utils.checkpoint.fsdp_checkpoint_manager"])
    arguments = (world_size, replicas, lora_only, str(base), str(folder))
    torch.multiprocessing.start_processes(_save, arguments, nprocs=world_size, start_method="forkserver")
    (folder / "model.pt").unlink()
    (folder / "latest_checkpointed_iteration.txt").write_text("7")
    return actor


def _save(rank: int, world_size: int, replicas: int, lora_only: bool, base: str, folder: str) -> None:
    from verl.utils.checkpoint.fsdp_checkpoint_manager import FSDPCheckpointManager

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=world_size)
    shape = (world_size,) if replicas == 1 else (replicas, world_size // replicas)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("ddp", "fsdp")[-len(shape) :])
    model = torch.load(f"{folder}/model.pt", weights_only=False)
    for layer in model.get_submodule(
        "base_model.model.model.layers" if hasattr(model, "peft_config") else "model.layers"
    ):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters())
    config = SimpleConfig(save_contents=["model"], load_contents=["model"], save_lora_only=lora_only)
    tokenizer = AutoTokenizer.from_pretrained(base)
    manager = FSDPCheckpointManager(model, optimizer, processing_class=tokenizer, checkpoint_config=config)
    manager.save_checkpoint(f"{folder}/global_step_7/actor", global_step=7)
    torch.distributed.destroy_process_group()


class SimpleConfig(SimpleNamespace):
    """verl's checkpoint config reads its settings both ways."""

    def get(self, name: str, default: object = None) -> object:
        return getattr(self, name, default)


def logits(model: torch.nn.Module, ids: list[int]) -> torch.Tensor:
    """Logits of one sequence, shape (tokens, vocabulary), float32."""
    with torch.no_grad():
        return copy.deepcopy(model).float().eval()(torch.tensor([ids])).logits[0]
