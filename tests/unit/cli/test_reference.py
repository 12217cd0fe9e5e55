"""The reference of the commands, and the examples in their help."""

import re
import shlex

import typer
from typer.testing import CliRunner

from cli.app import LazyCommands, build_app
from cli.examples import EXAMPLES
from cli.reference import commands, document
from tests.support.paths import ROOT


def root() -> LazyCommands:
    command = typer.main.get_command(build_app())
    assert isinstance(command, LazyCommands)
    return command


def test_the_reference_is_current() -> None:
    assert (ROOT / "docs/reference/cli.md").read_text() == document(), "run make cli-reference"


def test_every_command_has_an_example_and_every_example_a_command() -> None:
    runnable = {
        path
        for path, command, _ in commands(root())
        if not hasattr(command, "commands") or command.invoke_without_command
    }
    assert set(EXAMPLES) == runnable


def test_every_example_is_a_valid_command_line() -> None:
    top = root()
    for path, lines in EXAMPLES.items():
        for line in lines:
            words = shlex.split(re.sub(r'^eval "\$\((.*)\)"$', r"\1", line))
            assert words[: len(path.split())] == path.split(), line
            command, rest = top.load_command(words[1]), words[2:]
            if len(path.split()) > 2:
                command, rest = command.commands[words[2]], words[3:]
            if rest and getattr(command, "commands", None):
                continue
            with command.make_context(path, rest) as context:
                assert context.args == [], line


def test_flags_have_no_value_and_numbers_show_their_limits() -> None:
    output = CliRunner().invoke(build_app(), ["agent", "create", "--help"]).output
    assert "<" not in output
    assert re.search(r"--json  +Print JSON", output)
    assert "(0 to 2)" in output
    assert "Connection:" in output
    assert "Example:" in output


def test_every_option_and_argument_is_explained() -> None:
    for path, command, _ in commands(root()):
        for parameter in command.params:
            assert parameter.help, (path, parameter.name)
            assert parameter.help.endswith((".", "?")), (path, parameter.name, parameter.help)
