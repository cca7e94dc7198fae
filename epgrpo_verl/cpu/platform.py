# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The platform "cpu" for verl's ``PlatformRegistry``. Imported by a hook once verl's platform module is there."""

import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import torch
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry

_CPU = torch.device("cpu")


def _resident_bytes(*_: Any) -> int:
    return psutil.Process().memory_info().rss


def _no_op(*_: Any, **__: Any) -> None:
    return None


def _device_module() -> types.ModuleType:
    """Build a module with the functions of ``torch.cuda`` that verl calls, on top of ``torch.cpu``."""
    module = types.ModuleType("epgrpo_verl.cpu.device_module", "torch.cpu in the shape of torch.cuda")
    for name in dir(torch.cpu):
        if not name.startswith("__"):
            setattr(module, name, getattr(torch.cpu, name))
    for name in (
        "empty_cache",
        "ipc_collect",
        "reset_peak_memory_stats",
        "set_device",
        "set_per_process_memory_fraction",
        "synchronize",
    ):
        setattr(module, name, _no_op)
    module.is_available = lambda: True
    module.device_count = lambda: 1
    module.current_device = lambda: _CPU
    module.get_device_name = lambda *_: "cpu"
    module.manual_seed = module.manual_seed_all = torch.manual_seed
    module.get_rng_state = lambda *_: torch.get_rng_state()
    module.set_rng_state = lambda state, *_: torch.set_rng_state(state)
    # verl reports these as device memory: give the process's resident memory, in bytes.
    module.memory_allocated = module.memory_reserved = _resident_bytes
    module.max_memory_allocated = module.max_memory_reserved = _resident_bytes
    module.mem_get_info = lambda *_: (psutil.virtual_memory().available, psutil.virtual_memory().total)
    return module


@PlatformRegistry.register(platform="cpu")
class PlatformCPU(PlatformBase):
    """A host whose only compute device is its CPU; every process sees one device, ``torch.device("cpu")``."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module = _device_module()

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        # Chosen by VERL_PLATFORM=cpu only, never by verl's probing.
        return False

    def current_device(self) -> torch.device:  # type: ignore[override]
        # Declared as an index, but every caller hands it to .to(), device= or device_id=, where 0 would mean cuda:0.
        return _CPU

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        pass

    def synchronize(self, device_index: int | None = None) -> None:
        pass

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        pass

    def empty_cache(self) -> None:
        pass

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    def ray_resource_name(self) -> str:
        # verl's resource check counts only GPU and NPU, so the run declares logical GPUs: ray.init(num_gpus=N).
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self) -> bool:
        # Weights then travel to vLLM through POSIX shared memory instead of CUDA IPC.
        return False

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        pass

    def profiler_stop(self) -> None:
        pass

    def cudart(self) -> None:
        return None
