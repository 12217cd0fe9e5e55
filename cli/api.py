"""Which api a command speaks to, and by what it comes in there."""

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import typer

from cli.address import Address
from cli.errors import BadInputError
from shared.store.secrets import is_token

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
