"""Writes the commands into docs/reference/cli.md: `python -m cli.reference [--check] FILE`.

What stands before the first command in the file is written by hand.
"""

import sys
from pathlib import Path
from typing import Any, Final

import typer
from typer.cli import get_docs_for_click

from cli.app import COMMANDS, build_app, load_command

FIRST_COMMAND: Final = "# Commands in detail\n"


def commands() -> dict[str, Any]:
    """Each command and each group, in the order of `vigil --help`."""
    return {name: load_command(name) for name in COMMANDS}


def document(present: str) -> str:
    """The reference in Markdown, with the introduction of the `present` one."""
    introduction, _, _ = present.partition(f"#{FIRST_COMMAND}")
    context = typer.Context(typer.main.get_command(build_app()), info_name="vigil")
    sections = [
        get_docs_for_click(obj=command, ctx=context, indent=2, name=name, call_prefix="vigil")
        for name, command in commands().items()
    ]
    return f"{introduction}#{FIRST_COMMAND}\n{''.join(sections).rstrip()}\n"


def main() -> None:
    """Writes the reference, or checks that the file is current."""
    *options, name = sys.argv[1:]
    file = Path(name)
    present = file.read_text()
    if options != ["--check"]:
        file.write_text(document(present))
    elif present != document(present):
        sys.exit(f"{file} is out of date: run `make cli-reference`")


if __name__ == "__main__":
    main()
