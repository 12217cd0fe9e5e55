"""The reference of the commands, and the examples in it."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

from cli.app import load_command
from cli.reference import commands, document
from tests.support.paths import ROOT

REFERENCE = (ROOT / "docs/reference/cli.md").read_text()


def all_commands() -> Iterator[tuple[str, Any]]:
    for name, command in commands().items():
        yield name, command
        for subname, subcommand in getattr(command, "commands", {}).items():
            yield f"{name} {subname}", subcommand


def test_the_reference_is_current() -> None:
    assert document(REFERENCE) == REFERENCE, "run make cli-reference"


def test_every_example_is_a_valid_command_line() -> None:
    examples = REFERENCE.partition("## Examples\n\n```\n")[2].partition("```")[0].splitlines()
    assert len(examples) > 30
    for line in examples:
        _, name, *rest = shlex.split(re.sub(r'^eval "\$\((.*)\)"$', r"\1", line))
        command = load_command(name)
        if rest and rest[0] in getattr(command, "commands", {}):
            command, rest = command.commands[rest[0]], rest[1:]
        with command.make_context(name, rest) as context:
            assert context.args == [], line


def test_every_option_and_argument_is_explained() -> None:
    for path, command in all_commands():
        for parameter in command.params:
            assert parameter.help, (path, parameter.name)
            assert parameter.help.endswith((".", "?")), (path, parameter.name, parameter.help)
