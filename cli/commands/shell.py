"""`vigil completion`: completion of command lines in a shell."""

from enum import StrEnum
from typing import Annotated

import typer


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="Shell: bash, zsh or fish.")],
) -> None:
    """Print a script that makes your shell complete commands, options and agent names.

    Add the line of the example to ~/.bashrc or ~/.zshrc; for fish write it to ~/.config/fish/completions/vigil.fish.
    Names of agents are those of the installation that commands use; without one, nothing is completed.
    """
    from cli.completion import SCRIPTS

    typer.echo(SCRIPTS[shell], nl=False)
