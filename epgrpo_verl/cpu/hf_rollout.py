# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The rollout ``actor_rollout_ref.rollout.name=hf``: verl's two halves of a rollout, around :class:`HFServer`.

verl talks to a rollout from two sides: a *replica*, which the trainer asks to start servers and which the agent loops
send prompts to, and an *adapter*, which lives in the actor's process and pushes new weights to its server.
"""

import os
from collections.abc import Iterable
from typing import Any

import ray
import torch
from torch.distributed.device_mesh import DeviceMesh
from verl.workers.config import HFModelConfig, RolloutConfig
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica
from verl.workers.rollout.utils import ensure_async_iterator

from .hf_server import HFServer


def server_name(replica_rank: int) -> str:
    """Name of the Ray actor that serves a replica."""
    return f"hf_server_{replica_rank}"


class HFReplica(RolloutReplica):
    """One server process per replica; there is no tensor, pipeline or data parallelism inside one."""

    async def launch_servers(self) -> None:
        if self.world_size != 1:
            raise ValueError(
                "rollout.name=hf needs actor_rollout_ref.rollout.tensor_model_parallel_size=1, "
                f"data_parallel_size=1 and pipeline_model_parallel_size=1, but their product is {self.world_size}"
            )
        if self.is_reward_model or self.is_teacher_model:
            raise ValueError("rollout.name=hf serves the policy only: use vllm for a reward or teacher model")
        name = server_name(self.replica_rank)
        self._server_handle = (
            ray.remote(HFServer)
            .options(name=name, num_cpus=0, max_concurrency=self.max_concurrency)
            .remote(self.config, self.model_config, self.replica_rank)
        )
        await self._server_handle.__ray_ready__.remote()
        self._server_address = f"ray://{name}"
        self.servers = [self._server_handle]

    async def _nothing_to_do(self, *_: Any, **__: Any) -> None:
        """The weights stay in memory, and there is no cache between requests."""

    wake_up = sleep = _nothing_to_do
    clear_kv_cache = release_kv_cache = resume_kv_cache = _nothing_to_do
    start_profile = stop_profile = _nothing_to_do


class HFServerAdapter(BaseRollout):
    """Pushes the actor's weights to its replica's server.

    Args:
        config: verl's rollout config.
        model_config: verl's model config.
        device_mesh: Not used.
        replica_rank: Index of the replica, or -1 for the one that shares this process's rank.
    """

    is_leader_rank = True

    def __init__(
        self,
        config: RolloutConfig,
        model_config: HFModelConfig,
        device_mesh: DeviceMesh | None,
        replica_rank: int = -1,
    ):
        super().__init__(config, model_config, device_mesh)
        self.replica_rank = int(os.environ["RANK"]) if replica_rank == -1 else replica_rank

    async def resume(self, tags: list[str]) -> None:
        """Do nothing: the weights stay in memory."""

    async def release(self) -> None:
        """Do nothing: the weights stay in memory."""

    async def update_weights(
        self,
        weights: Iterable[tuple[str, torch.Tensor]],
        global_steps: int | None = None,
        wire_format: str = "named_tensors",
        **kwargs: Any,
    ) -> None:
        """Send all weights to the server.

        Args:
            weights: Pairs of name and full tensor. Every rank of the actor must consume them all, since gathering
                each tensor is a collective operation.
            global_steps: Version of the weights.
            wire_format: Only ``named_tensors``.
            kwargs: Further arguments of verl; a LoRA adapter is refused.

        Raises:
            ValueError: The weights are not plain full tensors.
            RuntimeError: The server is dead.
        """
        if wire_format != "named_tensors":
            raise ValueError(f"rollout.name=hf cannot load weights in the format {wire_format!r}")
        if kwargs.get("peft_config") is not None:
            raise ValueError("rollout.name=hf needs actor_rollout_ref.model.lora.merge=True to train with LoRA")
        # A copy per tensor: the state dict shares storage with the parameters that the optimiser goes on changing.
        state = {name: tensor.detach().clone() async for name, tensor in ensure_async_iterator(weights)}
        name = server_name(self.replica_rank)
        try:
            await ray.get_actor(name).load_weights.remote(state, global_steps)
        except (ValueError, ray.exceptions.RayActorError) as error:
            if isinstance(error, ray.exceptions.RayTaskError):
                raise
            raise RuntimeError(f"the rollout server {name} is dead: {error}") from error
