# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""``epgrpo doctor``: the command line, and the order of the checks."""

from __future__ import annotations

import copy
import logging
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from .report import Check, Status, as_json, failed, ok, show, warning, worst

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(no_args_is_help=True)
def doctor(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="OVERRIDE", help="Hydra overrides, as for python -m verl.trainer.main_ppo."),
    ] = None,
    config_path: Annotated[
        str | None, typer.Option("--config-path", "-cp", help="Folder of a config of your own, as for Hydra.")
    ] = None,
    config_name: Annotated[
        str | None, typer.Option("--config-name", "-cn", help="Name of the config. [default: ppo_trainer]")
    ] = None,
    ray: Annotated[
        bool, typer.Option("--ray/--no-ray", help="Also look from inside a Ray worker on each node.")
    ] = True,
    address: Annotated[
        str | None,
        typer.Option(envvar="RAY_ADDRESS", help="A running Ray cluster. Without it, a small one is started here."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Check a verl config before any GPU is used: will EP-GRPO get what it needs?

    Composes the config as verl does, and checks: the plugin in the driver and in Ray workers, the settings, token
    entropy, the reference policy, temperature, batch sizes, LoRA, and what works against EP-GRPO. No model is loaded.

    Prints a table, and for each failure the line that mends it. Exit code: 1 if a check failed, else 0.

    Examples:

    \b
    Put the arguments of your training command behind it:
      epgrpo doctor algorithm.adv_estimator=ep_grpo data.train_batch_size=64 ...

    \b
    Try a setting, in this process only (faster):
      epgrpo doctor --no-ray algorithm.adv_estimator=ep_grpo +algorithm.ep_grpo.num_buckets=20 ...

    \b
    Your own YAML file, or verl's Megatron config:
      epgrpo doctor --config-path=/home/me/configs --config-name=my_run
      epgrpo doctor --config-name=ppo_megatron_trainer algorithm.adv_estimator=ep_grpo ...

    \b
    All nodes of a running cluster:
      epgrpo doctor --address=10.0.0.1:6379 algorithm.adv_estimator=ep_grpo ...

    \b
    In a script that starts the training:
      epgrpo doctor --json "$@" > doctor.json || exit 1
    """
    console = Console(stderr=True)
    with console.status("Importing verl, composing the config ..."):
        checks, versions = examine(overrides or [], config_path, config_name, ray, address, console)
    if json:
        typer.echo(as_json(checks, versions))
    else:
        show(Console(), checks, versions)
    raise typer.Exit(1 if worst(checks) is Status.FAILED else 0)


def examine(
    overrides: Sequence[str],
    config_path: str | None = None,
    config_name: str | None = None,
    use_ray: bool = True,
    address: str | None = None,
    console: Console | None = None,
) -> tuple[list[Check], dict[str, Any]]:
    """Run all checks.

    Args:
        overrides: Hydra overrides, as given to ``python -m verl.trainer.main_ppo``.
        config_path: Hydra's ``--config-path``.
        config_name: Hydra's ``--config-name``.
        use_ray: Whether to look from inside Ray workers too.
        address: Address of a running Ray cluster; None starts a small one.
        console: Where progress is shown; None shows none.

    Returns:
        What was found, in the order of the table, and the versions of what was looked at.
    """
    _import_quietly()
    from .compose import compose_config

    config, checks = compose_config(overrides, config_path, config_name)
    if config is None:
        return checks, _versions({})
    more, versions = examine_config(config, use_ray, address, console)
    return [*checks, *more], versions


def examine_config(
    config: DictConfig, use_ray: bool = True, address: str | None = None, console: Console | None = None
) -> tuple[list[Check], dict[str, Any]]:
    """Run all checks on a config that was composed already; it is not changed. See `examine`."""
    say = console.log if console is not None and console.is_terminal else lambda text: None
    _import_quietly()
    from . import batch, model, parallel, passes, rules, values

    working = copy.deepcopy(config)
    checks = values.value_checks(working)
    driver, found = _driver_checks(working)
    checks += found
    if use_ray and driver:
        from .workers import worker_checks

        say("Starting a Ray worker ..." if address is None else f"Asking a worker on each node of {address} ...")
        checks += worker_checks(working, driver, address)
    estimator = rules.estimator_check(working)
    checks.append(estimator)
    if estimator.status is Status.FAILED:
        working.algorithm.adv_estimator = "ep_grpo"
    steps: tuple[tuple[str, Callable[[DictConfig], list[Check]]], ...] = (
        ("settings", rules.settings_checks),
        ("plugin", rules.preflight_checks),
        (parallel.HEADS, parallel.head_checks),
        (batch.NAME, batch.batch_checks),
        (parallel.NAME, parallel.rollout_checks),
        ("entropy", passes.pass_checks),
        ("model", lambda c: [model.lora_check(c), model.entropy_memory_check(c), model.fused_kernels_check(c)]),
        ("verl's own checks", lambda c: [rules.verl_check(c)]),
    )
    for name, step in steps:
        try:
            checks += step(working)
        except Exception as error:  # a config that the check was not written for must not hide what the others find
            checks.append(warning(name, f"Could not be checked: {error!r}"))
    return checks, _versions(driver)


def _import_quietly() -> None:
    """Import verl without its remarks on engines that are not installed."""
    from .process import TRAINERS

    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name in ("verl.trainer.main_ppo", *TRAINERS):
                import_module(name)
    finally:
        logging.disable(logging.NOTSET)


def _driver_checks(config: DictConfig) -> tuple[dict[str, Any], list[Check]]:
    from . import process

    name = "plugin"
    found = process.look(OmegaConf.to_container(config))
    if found["problems"]:
        return found, [failed(name, " ".join(found["problems"]), *found["fix"])]
    if found["warnings"]:
        return found, [warning(name, " ".join(found["warnings"]))]
    return found, [ok(name, f"registered and hooked into verl {found['verl']}, as {found['estimator']}")]


def _versions(driver: dict[str, Any]) -> dict[str, Any]:
    import verl

    from .. import __version__

    return {
        "epgrpo_verl": __version__,
        "verl": driver.get("verl", str(verl.__version__)),
        "python": sys.version.split()[0],
    }
