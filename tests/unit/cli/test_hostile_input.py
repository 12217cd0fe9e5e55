"""Any argument of a command leads to a message, never to a traceback."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import typer
from typer.testing import CliRunner

from cli.app import LazyCommands, build_app, load_command
from cli.errors import BadInputError
from shared.errors import VigilError
from tests.support.attack_mode import in_full
from tests.support.hostile import STRINGS

EXCLUDED: Final = {
    ("up",): "starts an installation",
    ("demo",): "starts an installation",
    ("try-model",): "starts an installation",
    ("migrate",): "waits for engines",
    ("keys",): "writes files",
    ("top",): "never ends",
}
PATH_PARAMETERS: Final = {"data", "output", "file", "keep"}
COMMON_PARAMETERS: Final = {"url", "profile", "token"}
"""Options of every command; they are tested with one command."""
MAX_CALLS: Final = 150
MAX_CALLS_IN_FULL: Final = 1_500
"""All 13,000 take 20 minutes; each seed draws others."""
VALUES: Final = [text for text in STRINGS if "\x00" not in text]
"""No argument of a process can hold NUL."""

Call = tuple[tuple[str, ...], Any, Any, str]
"""The path of a command, its Typer object, one of its parameters, and the value for it."""


def commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if hasattr(command, "commands"):
        is_lazy = isinstance(command, LazyCommands)
        for name, subcommand in command.commands.items():
            loaded = load_command(name) if is_lazy else subcommand
            yield from commands(loaded, (*path, name))
    else:
        yield path, command


def calls(app: Any) -> Iterator[Call]:
    for path, command in commands(app, ()):
        for parameter in command.params:
            is_tested = parameter.name not in PATH_PARAMETERS and (
                parameter.name not in COMMON_PARAMETERS or path == ("agent", "list")
            )
            if path not in EXCLUDED and is_tested and not getattr(parameter, "is_flag", False):
                yield from ((path, command, parameter, value) for value in VALUES)


def arguments(call: Call) -> list[str]:
    """Return the command line, with `x` for the other required parameters."""
    path, command, hostile, value = call
    options, positional = [], []
    for parameter in command.params:
        argument = value if parameter is hostile else "x" if parameter.required else None
        if argument is None:
            continue
        if parameter.param_type_name == "argument":
            positional.append(argument)
        else:
            name = max(parameter.opts, key=len)
            options.append(f"{name}={argument}")
    return [*path, *options, "--", *positional]


def test_no_argument_causes_a_traceback(
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
    all_calls = list(calls(app))
    assert len(all_calls) > 10 * MAX_CALLS
    count = MAX_CALLS_IN_FULL if in_full() else MAX_CALLS
    sample = random.Random(seed).sample(all_calls, count)
    runner = CliRunner()
    failures = []
    for call in sample:
        result = runner.invoke(program, arguments(call), input="")
        error = result.exception
        # `main` turns these into messages; see the test below.
        if error is not None and not isinstance(
            error, SystemExit | VigilError | UnicodeEncodeError
        ):
            failures.append(
                f"vigil {' '.join(call[0])}, {call[2].name}={call[3][:40]!r}: {error!r:.200}"
            )
    assert not failures, f"seed {seed}:\n" + "\n".join(failures)


def test_no_path_may_be_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VIGIL_DATA", str(tmp_path / "data"))
    program = build_app()
    path = "x" * 256
    tested = set()
    for names, command in commands(typer.main.get_command(program), ()):
        for parameter in command.params:
            if parameter.type_descriptor.annotation not in (Path, list[Path]):
                continue
            result = CliRunner().invoke(program, arguments((names, command, parameter, path)))
            assert result.exit_code == BadInputError.exit_code, (names, parameter.name)
            assert "the path is too long" in result.output, (names, parameter.name)
            tested.add(parameter.name)
    assert tested >= PATH_PARAMETERS | {"to", "passphrase_file", "corpus", "compare"}
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e400"])
@pytest.mark.parametrize(
    "command", [["budget", "x", "--usd"], ["run", "x", "--timeout"], ["demo", "--timeout"]]
)
def test_numbers_are_finite(command: list[str], number: str) -> None:
    result = CliRunner().invoke(build_app(), [*command, number])
    assert result.exit_code == BadInputError.exit_code
    assert "Invalid value" in result.output
