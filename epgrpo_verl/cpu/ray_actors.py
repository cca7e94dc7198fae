# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Ask a running Ray cluster which of its actors died."""

import logging
from dataclasses import dataclass

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class DeadActor:
    """An actor that ended though nobody asked it to."""

    name: str
    process_id: int
    cause: str

    def __str__(self) -> str:
        return f"{self.name} (process {self.process_id}): {self.cause}"


class ActorTable:
    """Reads Ray's actor table from outside the cluster, as Ray's own command line does.

    Args:
        gcs_address: ``host:port`` of Ray's global control store.
    """

    def __init__(self, gcs_address: str):
        from ray._raylet import GcsClientOptions, GlobalStateAccessor

        options = GcsClientOptions.create(gcs_address, None, allow_cluster_id_nil=True, fetch_cluster_id_if_nil=False)
        self._accessor = GlobalStateAccessor(options)
        if not self._accessor.connect():
            raise ConnectionError(f"cannot connect to Ray at {gcs_address}")

    def dead(self) -> list[DeadActor]:
        """Give the actors whose process died, or whose node did; not those that were ended on purpose."""
        from ray.core.generated import common_pb2, gcs_pb2

        bad = {common_pb2.ActorDiedErrorContext.Reason.Value(name) for name in ("WORKER_DIED", "NODE_DIED")}
        result = []
        for row in self._accessor.get_actor_table(None, "DEAD"):
            actor = gcs_pb2.ActorTableData.FromString(row)
            kind = actor.death_cause.WhichOneof("context")
            if kind == "actor_died_error_context":
                context = actor.death_cause.actor_died_error_context
                if context.reason not in bad or "exit_actor" in context.error_message:
                    continue
                cause = context.error_message
            elif kind == "oom_context":
                cause = actor.death_cause.oom_context.error_message
            elif kind == "creation_task_failure_context":
                cause = "its constructor raised"
            else:
                continue
            name = actor.class_name + (f" {actor.name!r}" if actor.name else "")
            result.append(DeadActor(name, actor.pid or actor.address.port, " ".join(cause.split())[:300]))
        return result


def gcs_address(command_line: list[str]) -> str | None:
    """Read the address of the control store from a raylet's command line."""
    for part in command_line:
        if part.startswith(("--gcs-address=", "--gcs_address=")):
            return part.split("=", 1)[1]
    return None
