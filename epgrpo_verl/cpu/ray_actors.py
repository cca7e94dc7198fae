# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Report which actors of a running Ray cluster died: ``python -m epgrpo_verl.cpu.ray_actors HOST:PORT``.

A program of its own, since Ray's client ends the process it lives in when the cluster is gone.
"""

import sys
import time
from dataclasses import dataclass

POLL_S = 1.0
"""Seconds between two looks at the actor table."""


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
            name = "actor " + actor.class_name + (f" {actor.name!r}" if actor.name else "")
            result.append(DeadActor(name, actor.pid, " ".join(cause.split())[:300]))
        return result


def main(gcs_address: str) -> None:
    """Print a line for each actor that dies, until the cluster is gone."""
    table = ActorTable(gcs_address)
    reported: set[DeadActor] = set()
    while True:
        for actor in table.dead():
            if actor not in reported:
                reported.add(actor)
                print(actor, flush=True)
        time.sleep(POLL_S)


if __name__ == "__main__":
    main(sys.argv[1])
