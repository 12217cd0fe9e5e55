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

    Add the line from the example to ~/.bashrc or ~/.zshrc; for fish, write it to ~/.config/fish/completions/vigil.fish.
    Agent names come from the installation that commands use; without an installation, they are not completed.
    """
    from cli.completion import SCRIPTS

    typer.echo(SCRIPTS[shell], nl=False)
