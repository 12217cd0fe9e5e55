"""How a command is declared: its group, its options, its API client, and how its result is printed."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from errno import ENAMETOOLONG
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import TyperCommand

from cli.client.target import Address
from cli.options import AsJson, Data, Profile, Token, Url

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console

_API_OPTIONS: Final[dict[str, Any]] = {
    "as_json": AsJson,
    "url": Url,
    "data": Data,
    "token": Token,
    "profile": Profile,
}


@dataclass(frozen=True)
class Result:
    """What a command prints: `data` with --json, else `text`, a line or what writes the data to the console."""

    data: "BaseModel | Sequence[BaseModel]"
    text: "str | Callable[[Console, Any], None]"
    failed: bool = False
    """Whether the exit code is 1."""


def api_command(command: Callable[..., Result | None]) -> Callable[..., None]:
    """Makes a command of a function whose first parameter is a Client, followed by its own options.

    Adds the options that choose the API, and --json where the function returns a Result. The function gets `as_json` or
    `data` only where it declares them. The client connects at its first request, so a function can check its arguments
    before.
    """
    signature = inspect.signature(command)
    declared = dict(list(signature.parameters.items())[1:])
    has_json = signature.return_annotation is Result or "as_json" in declared

    @wraps(command)
    def run(
        *,
        url: str | None = None,
        token: str | None = None,
        profile: str | None = None,
        data: Any = None,
        as_json: bool = False,
        **arguments: Any,
    ) -> None:
        from cli.client.client import Client
        from cli.config.discovery import api_url

        values = {"data": data, "as_json": as_json}
        arguments |= {name: value for name, value in values.items() if name in declared}
        with Client(lambda: api_url(Address(url, token, profile), data)) as client:
            result = command(client, **arguments)
            if result is not None:
                print_result(result, as_json=as_json)  # its text may need the client

    added = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=False if name == "as_json" else None,
            annotation=option,
        )
        for name, option in _API_OPTIONS.items()
        if name != "as_json" or has_json
    ]
    own = [each for name, each in declared.items() if name not in _API_OPTIONS]
    parameters = [*own, *added]
    # Typer reads both.
    run.__signature__ = inspect.Signature(parameters, return_annotation=None)  # type: ignore[attr-defined]  # of functions too
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def print_result(result: Result, *, as_json: bool) -> None:
    """Prints it on stdout. Raises typer.Exit where the command failed."""
    from cli.render.console import escape_control_chars, out, print_json

    if as_json:
        print_json(result.data)
    elif isinstance(result.text, str):
        typer.echo(escape_control_chars(result.text))
    else:
        result.text(out(), result.data)
    if result.failed:
        raise typer.Exit(1)


class PathCheckedCommand(TyperCommand):
    """A command that refuses paths that no file can have before it begins."""

    def invoke(self, ctx: Any) -> Any:
        parameters: list[Any] = self.params
        for parameter in parameters:
            values = ctx.params.get(parameter.name)
            for value in values if isinstance(values, list | tuple) else (values,):
                if isinstance(value, Path) and _is_too_long(value):
                    raise typer.BadParameter("the path is too long", ctx, parameter)
        return super().invoke(ctx)


def _is_too_long(path: Path) -> bool:
    try:
        path.lstat()
    except OSError as error:
        return error.errno == ENAMETOOLONG
    return False


class _CommandGroup(typer.Typer):
    def command(self, name: str | None = None, **options: Any) -> Any:
        return super().command(name, **{"cls": PathCheckedCommand, **options})


def command_group(name: str, summary: str, **options: Any) -> typer.Typer:
    defaults: dict[str, Any] = {
        "no_args_is_help": True,
        "pretty_exceptions_enable": False,
        "add_completion": False,
        "rich_markup_mode": None,  # it cuts the names of long options
    }
    return _CommandGroup(name=name, help=summary, **{**defaults, **options})
