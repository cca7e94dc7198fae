# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""Command line of the CPU backend: ``python -m epgrpo_verl.cpu {overrides,env,train}``."""

import argparse
import shlex
import sys

from .settings import ROLLOUTS, TRAINER_MODES, environment, merge_overrides, overrides


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m epgrpo_verl.cpu", description="Run verl on a machine without a GPU."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--rollout", choices=ROLLOUTS, default="hf", help="engine that generates (default: hf)")
    common.add_argument("--processes", type=int, default=1, help="FSDP processes of the actor (default: 1)")
    common.add_argument("--trainer-mode", choices=TRAINER_MODES, default="sync", help="V1 trainer (default: sync)")
    common.add_argument("--threads", type=int, help="torch threads per process (default: $OMP_NUM_THREADS, or else 1)")
    commands.add_parser("overrides", parents=[common], help="print the Hydra overrides a CPU run needs, one per line")
    commands.add_parser("env", parents=[common], help="print the environment variables it needs, as shell exports")
    train = commands.add_parser(
        "train",
        parents=[common],
        help="run verl.trainer.main_ppo with both, end it cleanly whatever happens",
        usage="%(prog)s [options] [hydra override ...]",
    )
    train.add_argument("--logs", help="folder that gets Ray's log files if the run fails")
    args, rest = parser.parse_known_args(argv)
    if rest and (args.command != "train" or any(item.startswith("-") for item in rest)):
        parser.error(f"unknown arguments: {shlex.join(rest)}")
    try:
        base = overrides(args.rollout, args.processes, args.trainer_mode)
        variables = environment(args.rollout, args.threads)
    except ValueError as error:
        parser.error(str(error))
    if args.command == "overrides":
        print("\n".join(base))
        return 0
    if args.command == "env":
        print("\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items()))
        return 0
    from .launch import train as run

    return run(merge_overrides(base, rest), variables, logs=args.logs)


if __name__ == "__main__":
    sys.exit(main())
