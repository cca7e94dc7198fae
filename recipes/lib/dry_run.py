# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Check a recipe's overrides as ``epgrpo doctor`` does; print the composed verl config and a memory plan.

Starts no Ray and loads no model: ``python dry_run.py [--gpu-memory-gb 80] [--check-only] -- override ...``
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from pathlib import Path

try:
    from memory_plan import memory_plan, model_shape, render
    from omegaconf import DictConfig, OmegaConf

    from epgrpo_verl.doctor.command import examine_config
    from epgrpo_verl.doctor.compose import compose_config
    from epgrpo_verl.doctor.report import Check, Status
except ModuleNotFoundError as error:
    sys.exit(
        f"{sys.executable} has no {error.name}: activate the environment that has verl and epgrpo_verl in it, "
        "or set PYTHON to its Python"
    )

_KNOB = re.compile(r'(?<=[\s(])(\w+(?:\.\w+)+)="\$(\w+)"\)?$', re.MULTILINE)


def knobs() -> dict[str, str]:
    """The environment variable that ``paper.sh`` gives to each key of verl's config."""
    return dict(_KNOB.findall((Path(__file__).parent / "paper.sh").read_text(encoding="utf-8")))


def check(overrides: list[str]) -> tuple[DictConfig | None, list[Check]]:
    """Compose verl's config and run the doctor's checks that need neither a GPU nor Ray.

    Returns:
        The config, None if it cannot be composed, and what was found, in the doctor's order.
    """
    config, checks = compose_config(overrides)
    return config, checks if config is None else [*checks, *examine_config(config, use_ray=False)[0]]


def explain(checks: list[Check], overrides: list[str]) -> list[str]:
    """Lines for what failed or was warned about, each with what to set: the recipe's variable where it has one.

    Args:
        checks: What the doctor found.
        overrides: The recipe's, and after them the user's. A key that is given twice is not set by a variable.
    """
    given = Counter(_key(item) for item in overrides)
    variables = {key: name for key, name in knobs().items() if given[key] == 1}
    lines = []
    for found in checks:
        # The recipes of the baselines are meant to be baselines.
        if found.status is Status.OK or (found.name == "estimator" and found.status is Status.WARNING):
            continue
        lines.append(f"{found.status.value}: {found.name}: {found.message}")
        for line in found.fix:
            key, _, value = line.partition("=")
            lines.append(f"    set {variables[key]}={value} ({line})" if key in variables else f"    set {line}")
    return lines


def _key(override: str) -> str:
    return override.lstrip("+~").partition("=")[0]


def main(argv: list[str] | None = None) -> int:
    """Print config and plan. Exit code 1: the run would not start, or not be the one that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu-memory-gb", type=float, default=80.0, help="memory of one GPU (default: 80)")
    parser.add_argument("--check-only", action="store_true", help="print what is wrong, and nothing else")
    parser.add_argument("overrides", nargs="*")
    args = parser.parse_args(argv)
    if not args.gpu_memory_gb > 0:
        parser.error(f"--gpu-memory-gb={args.gpu_memory_gb:g} (GPU_MEMORY_GB) must be above 0")
    config, checks = check(args.overrides)
    for line in explain(checks, args.overrides):
        print(line, file=sys.stderr)
    if config is None or any(found.status is Status.FAILED for found in checks):
        print("This config does not work.", file=sys.stderr)
        return 1
    if args.check_only:
        return 0
    from verl.trainer.ppo.utils import need_reference_policy

    reference = need_reference_policy(config)
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
