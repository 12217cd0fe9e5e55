"""How a command is declared: its group, its options, its API client, and how its result is printed."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import typer

from cli.client.target import Address
from cli.help import VigilCommand, VigilGroup
from cli.main import raise_on_interrupt
from cli.options import AsJson, Data, Profile, Token, Url

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console

_CREDENTIALS: Final[dict[str, Any]] = {"token": Token, "profile": Profile}
_API_OPTIONS: Final[dict[str, Any]] = {"as_json": AsJson, "url": Url, "data": Data}
_DEFAULTS: Final = {"as_json": False}


@dataclass(frozen=True)
class Result:
    """What a command prints: `data` with --json, else `text`, a line or what writes to the console."""

    data: "BaseModel | Sequence[BaseModel]"
    text: "str | Callable[[Console], None]"
    failed: bool = False
    """Whether the exit code is 1."""


def api_command(command: Callable[..., Result | None]) -> Callable[..., None]:
    """Makes a command of a function whose first parameter is a Client, followed by its own options.

    Adds --url and --data, which choose the API, and --json where the function returns a Result. The function gets
    `as_json` or `data` only where it declares them. The client connects at its first request, so a function can check
    its arguments before. Errors are printed by `cli.main`.
    """
    signature = inspect.signature(command)
    _, *parameters = signature.parameters.values()
    own = [parameter for parameter in parameters if parameter.name not in _API_OPTIONS]
    declared = {parameter.name for parameter in parameters}
    prints_result = signature.return_annotation is Result
    option_names = [
        name for name in _API_OPTIONS if name != "as_json" or prints_result or name in declared
    ]

    @wraps(command)
    def run(
        *,
        url: Address | None = None,
        data: Any = None,
        as_json: bool = False,
        **arguments: Any,
    ) -> None:
        from cli.client.client import Client
        from cli.config.discovery import api_url

        values = {"data": data, "as_json": as_json}
        arguments |= {name: value for name, value in values.items() if name in declared}
        with Client(lambda: api_url(url, data)) as client:
            raise_on_interrupt()  # after the imports, which may turn it into another error
            result = command(client, **arguments)
            if result is not None:
                print_result(result, as_json=as_json)  # its text may need the client

    _declare(run, own, {name: _API_OPTIONS[name] for name in option_names})
    run.has_client = True  # type: ignore[attr-defined]  # read by `_interruptible`
    return run


def print_result(result: Result, *, as_json: bool) -> None:
    """Prints it on stdout. Raises typer.Exit where the command failed."""
    from cli.render.console import escape_control_chars, out, print_json

    if as_json:
        print_json(result.data)
    elif isinstance(result.text, str):
        typer.echo(escape_control_chars(result.text))
    else:
        result.text(out())
    if result.failed:
        raise typer.Exit(1)


def with_credentials(command: Callable[..., None]) -> Callable[..., None]:
    """Adds --token and --profile to a command with --url, and passes all three to it as its `url`."""
    signature = inspect.signature(command)
    if "url" not in signature.parameters:
        return command

    @wraps(command)
    def run(
        *, url: Address | None = None, token: str | None, profile: str | None, **arguments: Any
    ) -> None:
        command(**arguments, url=replace(url or Address(), token=token, profile=profile))

    _declare(run, list(signature.parameters.values()), _CREDENTIALS)
    return run


class CommandGroup(typer.Typer):
    """A group whose commands take --token and --profile wherever they take --url."""

    def command(self, *args: Any, **options: Any) -> Callable[[Any], Any]:
        register = super().command(*args, **{"cls": VigilCommand, **options})
        return lambda command: register(with_credentials(_interruptible(command)))


def _interruptible(command: Callable[..., Any]) -> Callable[..., Any]:
    """In the command Ctrl-C raises KeyboardInterrupt. One with an API client sees to that itself."""
    if getattr(command, "has_client", False):
        return command

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> Any:
        raise_on_interrupt()
        return command(*arguments, **options)

    return run


def command_group(name: str, summary: str, **options: Any) -> CommandGroup:
    defaults: dict[str, Any] = {
        "cls": VigilGroup,
        "no_args_is_help": True,
        "pretty_exceptions_enable": False,
        "add_completion": False,
        "rich_markup_mode": None,
    }
    return CommandGroup(name=name, help=summary, **{**defaults, **options})


def _declare(
    run: Callable[..., None], own: list[inspect.Parameter], options: dict[str, Any]
) -> None:
    """Gives `run` the signature that Typer reads: the command's own parameters, then `options`."""
    options_of_signature = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_DEFAULTS.get(name),
            annotation=option,
        )
        for name, option in options.items()
    ]
    parameters = [*own, *options_of_signature]
    run.__signature__ = inspect.Signature(parameters, return_annotation=None)  # type: ignore[attr-defined]  # of functions too
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
