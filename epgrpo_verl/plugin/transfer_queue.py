# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Every call that the plugin makes to TransferQueue, the data plane of verl's V1 trainers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from . import EPGRPOPluginError


def get_padded(batch: Any, field: str) -> torch.Tensor:
    """Fetch one per-token field of a batch from TransferQueue.

    Args:
        batch: verl's ``KVBatchMeta``; rows come back in the order of ``batch.keys``.
        field: Name of the field, e.g. ``"entropy"``.

    Returns:
        Tensor of shape (bs, T), padded with zeros on the right.

    Raises:
        EPGRPOPluginError: The field was never written for these rows.
    """
    import transfer_queue as tq

    data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=[field])
    if field not in data.keys():
        raise EPGRPOPluginError(
            f"ep_grpo needs the per-token field {field!r}, and no worker wrote it to TransferQueue. The actor's "
            "old-log-prob pass computes it (calculate_entropy=True): check that "
            "algorithm.rollout_correction.bypass_mode=False, and that this verl still computes entropy there."
        )
    value = data[field]
    return value.to_padded_tensor(0) if value.is_nested else value


def get_tokens(batch: Any, rows: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Fetch the token ids of prompt and response of some rows of a batch, without padding.

    Args:
        batch: verl's ``KVBatchMeta``.
        rows: Row numbers, in the order of ``batch.keys``. Only those are fetched.
    """
    import transfer_queue as tq

    keys = [batch.keys[row] for row in rows]
    data = tq.kv_batch_get(keys=keys, partition_id=batch.partition_id, select_fields=["prompts", "responses"])
    pairs = zip(data["prompts"].unbind(), data["responses"].unbind(), strict=True)
    return [(prompt.tolist(), response.tolist()) for prompt, response in pairs]


def put_padded(batch: Any, field: str, value: torch.Tensor) -> Any:
    """Write one more per-token field of a batch to TransferQueue, in the layout of its advantages.

    Args:
        batch: verl's ``KVBatchMeta`` whose advantages were written.
        field: Name of the new field.
        value: Shape (bs, T), rows in the order of ``batch.keys``.

    Returns:
        The batch, with the new field among its ``fields``: those are what a worker gets.
    """
    import transfer_queue as tq
    from tensordict import TensorDict

    stored = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=["advantages"])
    advantages = stored["advantages"]
    if advantages.is_nested:
        lengths = advantages.offsets().diff().tolist()
        rows = [row[:length] for row, length in zip(value, lengths, strict=True)]
        value = torch.nested.as_nested_tensor(rows, layout=torch.jagged)
    fields = TensorDict({field: value}, batch_size=len(batch))
    batch.fields = tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=fields).fields
    return batch
