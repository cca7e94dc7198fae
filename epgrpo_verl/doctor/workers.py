# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Looks at the plugin from inside a Ray worker on every node: verl computes advantages there, not in the driver."""

from __future__ import annotations

import logging
import socket
from typing import Any

from omegaconf import DictConfig, OmegaConf

from ..plugin import preflight
from . import process
from .report import Check, failed, ok, warning

TIMEOUT_S = 300.0
"""Seconds that a worker gets to start and to import verl."""
CONNECT_S = 10.0
"""Seconds that a cluster gets to accept a connection. Ray itself would try for minutes."""
_OBJECT_STORE_BYTES = 100_000_000


def worker_checks(
    config: DictConfig, driver: dict[str, Any], address: str | None, timeout_s: float = TIMEOUT_S
) -> list[Check]:
    """Run `process.look` in a worker on each node of a Ray cluster.

    Args:
        config: A whole verl config; ``ray_kwargs.ray_init.runtime_env`` is used as verl does.
        driver: What `process.look` found in this process.
        address: Address of a running cluster; None or "local" starts a small one on this machine and ends it again.
        timeout_s: Seconds to wait for the workers.

    Returns:
        One check per node, and one for the number of GPUs of a running cluster.
    """
    import ray

    address = None if address == "local" else address
    if ray.is_initialized():
        return [warning("plugin in workers", "Not checked: this process is already connected to a Ray cluster.")]
    try:
        if address:
            _knock(address)
        _connect(config, address)
    except Exception as error:  # OSError, RuntimeError, ValueError: whatever Ray makes of an address
        told = f"No connection to Ray ({address or 'local'}): {error}"
        way_out = "" if address else " A busy machine may need another try; --no-ray leaves this check out."
        return [failed("plugin in workers", told + way_out)]
    try:
        nodes = [node for node in ray.nodes() if node["Alive"]]
        plain = OmegaConf.to_container(config)
        tasks = {node["NodeManagerHostname"]: _start(node["NodeID"], plain) for node in nodes}
        checks = [_node_check(host, task, driver, timeout_s) for host, task in tasks.items()]
        return checks + ([_gpu_check(config, ray.cluster_resources().get("GPU", 0))] if address else [])
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Raise OSError if nothing listens at ``host:port`` or ``ray://host:port``; other addresses are left to Ray."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S).close()


def _connect(config: DictConfig, address: str | None) -> None:
    import ray
    from verl.trainer.constants_ppo import get_ppo_ray_runtime_env

    given = preflight.select(config, "ray_kwargs.ray_init.runtime_env", {})
    runtime_env = OmegaConf.to_container(OmegaConf.merge(get_ppo_ray_runtime_env(config), given))
    small = {"num_cpus": 1, "num_gpus": 0, "object_store_memory": _OBJECT_STORE_BYTES, "include_dashboard": False}
    ray.init(
        address=address or "local",
        runtime_env=runtime_env,
        log_to_driver=False,
        logging_level=logging.ERROR,
        **({} if address else small),
    )


def _start(node_id: str, config: Any) -> Any:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(node_id, soft=False)
    task = ray.remote(process.look).options(num_cpus=0, max_retries=0, scheduling_strategy=here)
    return task.remote(config)


def _node_check(host: str, task: Any, driver: dict[str, Any], timeout_s: float) -> Check:
    import ray

    name = f"plugin on {host}"
    try:
        found = ray.get(task, timeout=timeout_s)
    except ray.exceptions.GetTimeoutError:
        return failed(name, f"The worker did not answer within {timeout_s:g} seconds.")
    except (ray.exceptions.RayError, ImportError) as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        missing = process.PACKAGE in str(error) and "No module named" in str(error)
        fix = ["pip install .  # in a clone of its repository, on that node"] if missing else []
        return failed(name, f"The worker failed: {lines[-1].strip() if lines else repr(error)}", *fix)
    if found["problems"]:
        return failed(name, " ".join(found["problems"]), *found["fix"])
    differ = [key for key in ("verl", process.PACKAGE) if found[key] != driver[key]]
    if differ:
        versions = "; ".join(f"{key} {found[key]} there, {driver[key]} here" for key in differ)
        fix = [f"pip install verl=={driver['verl']}"] if "verl" in differ else []
        return failed(name, f"Versions differ: {versions}.", *fix)
    return ok(name, f"registered and hooked in a Ray worker, as {found['estimator']}")


def _gpu_check(config: DictConfig, gpus: float) -> Check:
    need = config.trainer.n_gpus_per_node * config.trainer.nnodes
    if gpus < need:
        text = f"trainer.nnodes x trainer.n_gpus_per_node = {need}, and this Ray cluster has {gpus:g} GPUs."
        return warning("GPUs", f"{text} verl waits for the rest to join.")
    return ok("GPUs", f"{gpus:g} in the cluster, {need} needed")
