# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Stands where a recipe's Python is, on a machine without a GPU: ``PYTHON=<this> bash run_qwen2.5_3b_epgrpo.sh``.

The recipe's check of its config is run as it is. Its training goes to the launcher of the CPU backend with the recipe's
overrides, after which come those that only a CPU needs: they take the place of the recipe's for the same keys. Nothing
else is changed, but that FSDP takes the place of Megatron, which has no CPU engine.
"""

from __future__ import annotations

import os
import sys

from epgrpo_verl import cpu

MERGED_LORA = "actor_rollout_ref.model.lora.merge=True"
"""transformers generates with the weights of the adapter fused into those of the model; vLLM serves both apart."""


def key_of(override: str) -> str:
    return override.lstrip("+~").partition("=")[0]


def for_fsdp(overrides: list[str]) -> list[str]:
    """Overrides without those of Megatron, and with its LoRA settings under the names that FSDP has for them."""
    kept = [item for item in overrides if key_of(item) != "model_engine" and ".megatron." not in key_of(item)]
    return [
        item.replace(".model.lora.rank=", ".model.lora_rank=").replace(".lora.alpha=", ".lora_alpha=") for item in kept
    ]


def for_a_cpu(overrides: list[str]) -> list[str]:
    """What to add to a recipe's overrides, with one FSDP process for each of its GPUs."""
    (gpus,) = [item.partition("=")[2] for item in overrides if key_of(item) == "trainer.n_gpus_per_node"]
    return [*cpu.overrides("hf", int(gpus)), MERGED_LORA]


def main(arguments: list[str]) -> int:
    """Run what a recipe starts."""
    from epgrpo_verl.cpu.__main__ import main as launch

    if arguments[0] != "-m":
        os.execv(sys.executable, [sys.executable, *arguments])
    module, *recipe = arguments[1:]
    assert module == "verl.trainer.main_ppo", arguments
    return launch(["train", "--rollout", "hf", *cpu.merge_overrides(for_fsdp(recipe), for_a_cpu(recipe))])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
