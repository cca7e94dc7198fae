# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The FSDP engine's refusals, and the checkpoint engine between a sender and two receivers."""

import asyncio
import os
from types import SimpleNamespace

import pytest
import torch

os.environ.setdefault("VERL_PLATFORM", "cpu")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"strategy": "fsdp", "offload_policy": False}, "actor_rollout_ref.actor.strategy=fsdp2"),
        ({"strategy": "fsdp2", "offload_policy": True}, "offload_policy=True needs an accelerator"),
    ],
)
def test_settings_that_need_an_accelerator_are_refused(settings, message):
    import verl.workers.engine_workers  # noqa: F401  imports verl's engines, and by its hook ours

    from epgrpo_verl.cpu.engine import CPUFSDPEngineWithLMHead

    engine = CPUFSDPEngineWithLMHead.__new__(CPUFSDPEngineWithLMHead)
    engine.engine_config = SimpleNamespace(forward_only=True, **settings)
    with pytest.raises(ValueError, match=message):
        engine._build_fsdp_module(torch.nn.Linear(1, 1))


def test_weights_travel_to_every_receiver_and_nothing_stays_in_the_store():
    from verl.checkpoint_engine.base import CheckpointEngineRegistry

    master = CheckpointEngineRegistry.new("tcpstore", bucket_size=1, is_master=True)
    other_rank = CheckpointEngineRegistry.new("tcpstore", bucket_size=1)
    receivers = [CheckpointEngineRegistry.new("tcpstore", bucket_size=1) for _ in range(2)]
    metadata = [engine.prepare() for engine in (master, other_rank, *receivers)]
    for_actor, for_rollout = type(master).build_topology(2, 2, metadata)
    for engine, address in zip(
        (master, other_rank, *receivers), for_actor["address"] + for_rollout["address"], strict=True
    ):
        engine.init_process_group(address=address)

    async def receive(engine, step):
        return [pair async for pair in engine.receive_weights(step)]

    keys_before = master.store.num_keys()
    for step in range(3):
        weights = [("a", torch.full((2, 3), float(step))), ("b", torch.arange(4, dtype=torch.bfloat16)[::2])]
        consumed = iter(weights)
        asyncio.run(other_rank.send_weights(consumed, step))
        assert next(consumed, None) is None  # every rank has to take part in gathering each tensor
        asyncio.run(master.send_weights(iter(weights), step))
        for engine in receivers:
            received = asyncio.run(receive(engine, step))
            assert [name for name, _ in received] == ["a", "b"]
            for (_, expected), (_, tensor) in zip(weights, received, strict=True):
                assert tensor.dtype == expected.dtype
                assert torch.equal(tensor, expected)
        for engine in (master, other_rank, *receivers):
            engine.finalize()
        assert master.store.num_keys() == keys_before
