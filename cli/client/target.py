"""Which API a command uses, and with which token."""

import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from cli.errors import BadInputError
from shared.accounts.secrets import is_token


@dataclass(frozen=True)
class Address:
    """What was given of it; None is what was not."""

    url: str | None = None
    token: str | None = None
    """`-`: it is read from standard input."""
    profile: str | None = None


Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="TOKEN",
        help="Token to come in by; - reads it from standard input, where nobody sees it among the processes.",
        envvar="VIGIL_TOKEN",
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        help="An installation that `vigil login` has saved.",
        envvar="VIGIL_PROFILE",
    ),
]

_OPTIONS: Final[dict[str, Any]] = {"token": Token, "profile": Profile}


def with_credentials(command: Callable[..., None]) -> Callable[..., None]:
    """`command` with a --token and a --profile beside its --url; it is handed all of it as its `url`.

    Thus no command that speaks to an api can be without them.
    """
    signature = inspect.signature(command)
    if "url" not in signature.parameters:
        return command

    @wraps(command)
    def addressed(
        *, url: Address | None = None, token: str | None, profile: str | None, **given: Any
    ) -> None:
        command(**given, url=replace(url or Address(), token=token, profile=profile))

    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)
        for name, option in _OPTIONS.items()
    ]
    parameters = [*signature.parameters.values(), *added]
    addressed.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # of functions too
    addressed.__annotations__ = {**command.__annotations__, **_OPTIONS}
    return addressed


STANDARD_INPUT: Final = "-"
SECRET_FILE: Final = "vigil_token"


@dataclass(frozen=True)
class Api:
    url: str
    token: str | None = field(default=None, repr=False)
    """None: nothing is shown, and little is answered."""


def given_token(address: Address) -> str | None:
    """As the command line or the environment has it, or a file `vigil_token` in $VIGIL_SECRETS_DIR.

    Raises BadInputError where that is no token, without repeating it.
    """
    token = address.token or _from_secrets()
    if token == STANDARD_INPUT:
        token = sys.stdin.readline()
    return None if token is None else checked_token(token)


def asked_token(address: Address) -> str:
    """As it was given; else the person is asked for it, and nobody sees it typed. Raises BadInputError."""
    token = given_token(address)
    if token is None and not sys.stdin.isatty():
        raise BadInputError("there is no token: write it to standard input and say --token -")
    return token or checked_token(typer.prompt("Token", hide_input=True, err=True))


def checked_token(text: str) -> str:
    """Raises BadInputError."""
    token = text.strip()
    if not is_token(token):
        raise BadInputError(
            "what was given as a token is none: a token begins with vgl_ and has 47 characters"
        )
    return token


def _from_secrets() -> str | None:
    for directory in os.environ.get("VIGIL_SECRETS_DIR", "").split(os.pathsep):
        file = Path(directory) / SECRET_FILE
        if directory and file.is_file():
            return file.read_text()
    return None
