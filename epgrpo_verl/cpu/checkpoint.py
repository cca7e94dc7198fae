# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoint engine ``tcpstore``: sends the actor's weights to separate rollout servers through a torch TCPStore.

For ``trainer.v1.trainer_mode=separate_async`` without NCCL: ``rollout.checkpoint_engine.backend=tcpstore``.
"""

import io
from collections.abc import AsyncIterator, Iterable
from datetime import timedelta
from typing import Any

import ray
import torch
from torch.distributed import TCPStore
from verl.checkpoint_engine.base import CheckpointEngine, CheckpointEngineRegistry
from verl.workers.rollout.utils import ensure_async_iterator

TIMEOUT = timedelta(minutes=10)
"""How long a rollout server waits for the next tensor before it gives up."""


@CheckpointEngineRegistry.register("tcpstore")
class TCPStoreCheckpointEngine(CheckpointEngine):
    """Rank 0 of the actor writes each tensor under a key; every rollout worker reads it; ``finalize`` deletes them.

    Args:
        bucket_size: Not used: a tensor is sent whole.
        is_master: Whether this is rank 0 of the actor. It owns the store.
    """

    def __init__(self, bucket_size: int, is_master: bool = False):
        self.is_master = is_master
        self.store: TCPStore | None = None
        self._sent: list[str] = []

    def prepare(self) -> tuple[str, int] | None:
        """Start the store on the master and give its address."""
        if not self.is_master:
            return None
        host = ray.util.get_node_ip_address().strip("[]")
        if self.store is None:
            self.store = TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=TIMEOUT)
        return host, self.store.port

    @classmethod
    def build_topology(
        cls, actor_wg_world_size: int, rollout_world_size: int, metadata: list[Any]
    ) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
        """Give every rollout worker the address of the store."""
        return {"address": [None] * actor_wg_world_size}, {"address": [metadata[0]] * rollout_world_size}

    def init_process_group(self, address: tuple[str, int] | None) -> None:
        """Connect a rollout worker to the store."""
        if address is not None and self.store is None:
            self.store = TCPStore(*address, is_master=False, wait_for_workers=False, timeout=TIMEOUT)

    def finalize(self) -> None:
        """Delete what was sent; verl calls this after every receiver is done."""
        for key in self._sent:
            self.store.delete_key(key)
        self._sent = []

    async def send_weights(
        self, weights: Iterable[tuple[str, torch.Tensor]], global_steps: int | None = None
    ) -> dict[str, Any]:
        """Write all tensors. Every rank iterates, since gathering a tensor is a collective operation."""
        index = 0
        async for name, tensor in ensure_async_iterator(weights):
            if self.is_master:
                buffer = io.BytesIO()
                torch.save((name, tensor.detach().cpu().clone()), buffer)
                self._set(f"{global_steps}/{index}", buffer.getvalue())
            index += 1
        if self.is_master:
            self._set(f"{global_steps}/count", str(index))
        return {}

    def _set(self, key: str, value: bytes | str) -> None:
        self.store.set(key, value)
        self._sent.append(key)

    async def receive_weights(self, global_steps: int | None = None) -> AsyncIterator[tuple[str, torch.Tensor]]:
        """Read all tensors in the order in which they were sent."""
        for index in range(int(self.store.get(f"{global_steps}/count"))):
            yield torch.load(io.BytesIO(self.store.get(f"{global_steps}/{index}")), weights_only=True)
