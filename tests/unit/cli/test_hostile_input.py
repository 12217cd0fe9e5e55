"""Whatever is given to a command ends in a message, never in a traceback."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import typer
from typer.testing import CliRunner

from cli.errors import BadInputError
from cli.main import LazyCommands, build_app
from shared.errors import VigilError
from tests.support.attack_mode import in_full
from tests.support.hostile import STRINGS

NOT_CALLED: Final = {
    ("up",): "starts an installation",
    ("demo",): "starts an installation",
    ("try-model",): "starts an installation",
    ("migrate",): "waits for engines",
    ("keys",): "writes files",
    ("top",): "goes on for ever",
}
OF_PATHS: Final = {"data", "output", "file", "keep"}
OF_EACH: Final = {"url", "profile", "token"}
"""Options that every command has; they are tried with one."""
MOST_CALLS: Final = 150
MOST_CALLS_IN_FULL: Final = 1_500
"""All 13,000 take 20 minutes; every seed draws others."""
VALUES: Final = [each for each in STRINGS if "\x00" not in each]
"""No argument of a process can hold NUL."""

Call = tuple[tuple[str, ...], Any, Any, str]
"""A command by its path and as Typer has it, one of its parameters, and what is given for that."""


def commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if hasattr(command, "commands"):
        is_lazy = isinstance(command, LazyCommands)
        for name, listed in command.commands.items():
            loaded = command.load_command(name) if is_lazy else listed
            yield from commands(loaded, (*path, name))
    else:
        yield path, command


def calls(app: Any) -> Iterator[Call]:
    for path, command in commands(app, ()):
        for parameter in command.params:
            is_tried = parameter.name not in OF_PATHS and (
                parameter.name not in OF_EACH or path == ("agent", "list")
            )
            if path not in NOT_CALLED and is_tried and not getattr(parameter, "is_flag", False):
                yield from ((path, command, parameter, value) for value in VALUES)


def arguments(call: Call) -> list[str]:
    """With `x` for what else the command needs."""
    path, command, hostile, value = call
    options, positional = [], []
    for parameter in command.params:
        given = value if parameter is hostile else "x" if parameter.required else None
        if given is None:
            continue
        if parameter.param_type_name == "argument":
            positional.append(given)
        else:
            name = max(parameter.opts, key=len)
            options.append(f"{name}={given}")
    return [*path, *options, "--", *positional]


def test_no_argument_ends_in_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "VIGIL_URL": "http://127.0.0.1:9",
        "VIGIL_DATA": str(tmp_path / "data"),
        "XDG_CONFIG_HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path),
    }.items():
        monkeypatch.setenv(name, value)
    program = build_app()
    app = typer.main.get_command(program)
    every = list(calls(app))
    assert len(every) > 10 * MOST_CALLS
    count = MOST_CALLS_IN_FULL if in_full() else MOST_CALLS
    tried = random.Random(seed).sample(every, count)
    runner = CliRunner()
    wrong = []
    for call in tried:
        ended = runner.invoke(program, arguments(call), input="")
        error = ended.exception
        # `main` makes a message of these; see the test below.
        if error is not None and not isinstance(
            error, SystemExit | VigilError | UnicodeEncodeError
        ):
            wrong.append(
                f"vigil {' '.join(call[0])}, {call[2].name}={call[3][:40]!r}: {error!r:.200}"
            )
    assert not wrong, f"seed {seed}:\n" + "\n".join(wrong)


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e400"])
@pytest.mark.parametrize(
    "command", [["budget", "x", "--usd"], ["run", "x", "--timeout"], ["demo", "--timeout"]]
)
def test_numbers_are_finite(command: list[str], number: str) -> None:
    ended = CliRunner().invoke(build_app(), [*command, number])
    assert ended.exit_code == BadInputError.exit_code
    assert "Invalid value" in ended.output
