# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Reads what verl's FSDP engine saved: whole tensors, in the dtype they were saved in.

verl's own merger rounds every shard to bfloat16 as it reads it, LoRA factors included. Here nothing is rounded before
the last step, so that the result can be compared with what was trained.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from .errors import MergeError

LATEST = "latest_checkpointed_iteration.txt"


def find_actor(path: Path) -> Path:
    """Finds the folder with the actor's shards.

    Args:
        path: That folder, its parent ``global_step_N``, or the folder of all checkpoints, of which the last is taken.

    Raises:
        MergeError: There is no FSDP checkpoint of verl there.
    """
    if not path.is_dir():
        raise MergeError(f"{path} is no folder. Give a global_step_N folder that verl saved.")
    latest = path / LATEST
    if latest.is_file():
        path = path / f"global_step_{latest.read_text().strip()}"
    actor = path / "actor" if (path / "actor").is_dir() else path
    if any(actor.glob("model_world_size_*_rank_*.pt")):
        return actor
    if (actor / "model").is_dir() or (actor / "dist_ckpt").is_dir():
        raise MergeError(
            f"{actor} is a checkpoint of Megatron, which this command does not read. "
            "Use: python -m verl.model_merger merge --backend megatron"
        )
    raise MergeError(
        f"{actor} holds no model_world_size_N_rank_K.pt: give a global_step_N folder of verl's FSDP engine, saved with "
        "'model' in actor_rollout_ref.actor.checkpoint.save_contents"
    )


def step_of(actor: Path) -> int | None:
    """The training step of a checkpoint by the name of its folder; None if that does not say."""
    match = re.fullmatch(r"global_step_(\d+)", actor.resolve().parent.name)
    return int(match[1]) if match else None


class Checkpoint(Mapping[str, torch.Tensor]):
    """The whole tensors of a sharded checkpoint, by verl's names. Each is put together when it is asked for.

    The shards are mapped from the disk and not read into memory at once. They are pickles: open only what you trust.

    Attributes:
        folder: The folder of the shards.
        world_size: Processes that saved it.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.world_size = self._world_size()

    def _world_size(self) -> int:
        config = self.folder / "fsdp_config.json"
        if config.is_file():
            size = json.loads(config.read_text()).get("world_size")
        else:
            sizes = {int(re.search(r"size_(\d+)", path.name)[1]) for path in self.folder.glob("model_world_size_*.pt")}
            size = sizes.pop() if len(sizes) == 1 else None
        if not isinstance(size, int) or size < 1:
            raise MergeError(f"{config} does not say by how many processes the checkpoint was saved")
        missing = [rank for rank in range(size) if not self._path(rank, size).is_file()]
        if missing:
            raise MergeError(
                f"{self.folder} was saved by {size} processes, and the file of rank {', '.join(map(str, missing))} is "
                f"missing ({self._path(missing[0], size).name}). Copy the shards of all nodes into one folder."
            )
        return size

    def _path(self, rank: int, world_size: int) -> Path:
        return self.folder / f"model_world_size_{world_size}_rank_{rank}.pt"

    @cached_property
    def _ranks(self) -> list[dict[str, Any]]:
        ranks = []
        for rank in range(self.world_size):
            path = self._path(rank, self.world_size)
            try:
                ranks.append(torch.load(path, map_location="cpu", weights_only=False, mmap=True))
            except Exception as error:  # a file that was cut off raises errors of many kinds
                raise MergeError(f"{path} cannot be read: {error}") from error
        names = set(ranks[0])
        for rank, state in enumerate(ranks):
            if set(state) != names:
                raise MergeError(f"ranks 0 and {rank} of {self.folder} hold different tensors")
        return ranks

    def __getitem__(self, name: str) -> torch.Tensor:
        """One whole tensor.

        Raises:
            MergeError: The shards are laid out in a way that this command does not read, or contradict each other.
        """
        shards = [state[name] for state in self._ranks]
        first = shards[0]
        if not isinstance(first, DTensor):
            if not isinstance(first, torch.Tensor) or type(first) not in (torch.Tensor, torch.nn.Parameter):
                raise MergeError(f"{name} was saved as a {type(first).__name__}, which this command does not read")
            if any(not torch.equal(first, other) for other in shards[1:]):
                raise MergeError(f"{name} was not sharded, and still differs between the ranks")
            return first.detach()
        mesh, placements = first.device_mesh.mesh, tuple(first.placements)
        while mesh.ndim > 1 and placements[0].is_replicate():  # replicas hold the same
            mesh, placements = mesh[0], placements[1:]
        if mesh.ndim != 1:
            raise MergeError(f"{name} is sharded over {mesh.ndim} dimensions, which this command does not read")
        parts = [shards[rank].to_local() for rank in mesh.tolist()]
        if placements[0].is_replicate():
            whole = parts[0]
        elif placements[0].is_shard():
            whole = torch.cat(parts, dim=placements[0].dim)
        else:
            raise MergeError(f"{name} was saved as a partial sum, which this command does not read")
        if whole.shape != first.shape:
            raise MergeError(f"the shards of {name} make {tuple(whole.shape)} and not {tuple(first.shape)}")
        return whole.detach()

    def __iter__(self) -> Iterator[str]:
        return iter(self._ranks[0])

    def __len__(self) -> int:
        return len(self._ranks[0])
