# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Compose a recipe's overrides with verl's own config, check it as verl does, print it and a memory plan.

Starts no Ray and loads no model: ``python dry_run.py [--gpu-memory-gb 80] -- override ...``
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys

from hydra import compose, initialize_config_dir
from hydra.errors import InstantiationException
from memory_plan import memory_plan, model_shape, render
from omegaconf import DictConfig, OmegaConf


def compose_config(overrides: list[str]) -> DictConfig:
    """verl's trainer config with these Hydra overrides, as ``verl.trainer.main_ppo`` composes it."""
    import verl.trainer

    folder = os.path.join(os.path.dirname(verl.trainer.__file__), "config")
    with initialize_config_dir(folder, version_base=None):
        return compose("ppo_trainer", overrides)


def check(config: DictConfig) -> bool:
    """Run verl's own checks, the plugin's among them, and return whether the run needs a reference policy.

    verl's check of the LoRA rank asks the installed vLLM; without vLLM that one is left out.
    """
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config

    reference = need_reference_policy(config)
    checked = config
    if importlib.util.find_spec("vllm") is None:
        print("vLLM is not installed here: the LoRA rank was not checked against it", file=sys.stderr)
        checked = config.copy()
        checked.actor_rollout_ref.rollout.name = "hf"
    validate_config(checked, reference, need_critic(config))
    return reference


def main(argv: list[str] | None = None) -> int:
    """Print config and plan. Exit code 1: verl or the plugin refuses the config."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu-memory-gb", type=float, default=80.0, help="memory of one GPU (default: 80)")
    parser.add_argument("overrides", nargs="*")
    args = parser.parse_args(argv)
    config = compose_config(args.overrides)
    try:
        reference = check(config)
    except (ValueError, AssertionError, RuntimeError, InstantiationException) as error:
        print(f"this config does not work: {error}", file=sys.stderr)
        return 1
    print(OmegaConf.to_yaml(config))
    print(f"Reference policy needed: {reference}")
    try:
        shape = model_shape(config.actor_rollout_ref.model.path)
    except ValueError as error:
        print(error)
        return 0
    print(render(memory_plan(config, shape, args.gpu_memory_gb, reference), args.gpu_memory_gb))
    return 0


if __name__ == "__main__":
    sys.exit(main())
