# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Decide whether this process should use the CPU backend."""

import os
import tempfile
from glob import glob
from pathlib import Path

_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off"}

# Device nodes of NVIDIA, AMD (ROCm) and Ascend accelerators. They exist also in processes that see no device because
# CUDA_VISIBLE_DEVICES is empty, as in Ray's CPU-only actors on a GPU node.
_DEVICE_NODES = ("/dev/nvidia[0-9]*", "/dev/nvidiactl", "/dev/dxg", "/dev/kfd", "/dev/davinci[0-9]*")


def wanted() -> bool:
    """Say whether the CPU backend should be active in this process.

    In order, the first that gives an answer:

    1. ``VERL_PLATFORM``: verl's own choice; only ``cpu`` means yes.
    2. ``EPGRPO_CPU``: 1/true/yes/on or 0/false/no/off.
    3. A Ray worker, or the driver of a Ray cluster that was started beforehand: no. The node at hand may lack an
       accelerator that other nodes have, so the choice has to be made by one of the two variables.
    4. No accelerator on this machine: yes.

    The check is cheap, never imports verl and never initialises CUDA.

    Raises:
        ValueError: ``EPGRPO_CPU`` is neither true nor false.
    """
    platform = os.environ.get("VERL_PLATFORM", "").strip().lower()
    if platform:
        return platform == "cpu"
    flag = os.environ.get("EPGRPO_CPU", "").strip().lower()
    if flag:
        if flag not in _TRUE | _FALSE:
            raise ValueError(f"EPGRPO_CPU={flag!r} is not one of 1/true/yes/on or 0/false/no/off")
        return flag in _TRUE
    if _in_ray_worker() or _joins_a_ray_cluster():
        return False
    return not accelerator_present()


def accelerator_present() -> bool:
    """Say whether this machine has an accelerator that verl could use (CUDA, ROCm, Ascend NPU, Intel XPU)."""
    if any(glob(pattern) for pattern in _DEVICE_NODES):
        return True
    import torch

    # torch.cuda.is_available() and is_initialized() do not create a CUDA context. torch.npu exists only if torch_npu
    # was imported, which verl does before it loads plugins.
    return any(
        getattr(torch, name).is_available() for name in ("cuda", "xpu", "npu", "musa", "mlu") if hasattr(torch, name)
    )


def _in_ray_worker() -> bool:
    return "RAY_RAYLET_PID" in os.environ


def _joins_a_ray_cluster() -> bool:
    if os.environ.get("RAY_ADDRESS", "local") != "local":
        return True
    # `ray start` leaves the address here, and ray.init() without an address connects to it.
    return (Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()) / "ray" / "ray_current_cluster").exists()
