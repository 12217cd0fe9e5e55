"""`vigil completion`: completion of command lines in a shell."""

from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]  # not in __all__

from cli.options import COMPLETION_VARIABLE


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="Shell: bash, zsh or fish.")],
) -> None:
    """Print a script that makes your shell complete commands, options and agent names.

    Add `eval "$(vigil completion bash)"` to ~/.bashrc, or the same for zsh to ~/.zshrc; for fish, write the script to
    ~/.config/fish/completions/vigil.fish. Agent names come from the installation that commands use; without an
    installation, they are not completed.
    """
    typer.echo(
        get_completion_script(prog_name="vigil", complete_var=COMPLETION_VARIABLE, shell=shell)
    )
