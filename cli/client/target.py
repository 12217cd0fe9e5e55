"""The API a command uses, and the token it presents."""

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cli.errors import BadInputError
from cli.prompts import ask_secret


@dataclass(frozen=True)
class Address:
    """The API as the options name it; None is an option that was not given."""

    url: str | None = None
    token: str | None = None
    """`-` reads it from standard input."""
    profile: str | None = None


STANDARD_INPUT: Final = "-"
SECRET_FILE: Final = "vigil_token"


@dataclass(frozen=True)
class Api:
    url: str
    token: str | None = field(default=None, repr=False)
    """None: requests are anonymous, and the API refuses most of them."""


def read_token(address: Address) -> str | None:
    """The token from the command line, the environment, or a file `vigil_token` in $VIGIL_SECRETS_DIR.

    Raises BadInputError if it is malformed; the message does not contain it.
    """
    token = address.token or _read_secret_file()
    if token == STANDARD_INPUT:
        token = sys.stdin.readline()
    return None if token is None else parse_token(token)


def prompt_token(address: Address) -> str:
    """The token from `read_token`, otherwise from a prompt that hides what is typed. Raises BadInputError."""
    token = read_token(address)
    if token is None and not sys.stdin.isatty():
        raise BadInputError("no token was given: write it to standard input and use --token -")
    return token or parse_token(ask_secret("Token"))


def parse_token(text: str) -> str:
    """Raises BadInputError."""
    from shared.accounts.secrets import is_token  # here, because --help should not import it

    token = text.strip()
    if not is_token(token):
        raise BadInputError("this is not a token: a token starts with vgl_ and has 47 characters")
    return token


def _read_secret_file() -> str | None:
    for directory in os.environ.get("VIGIL_SECRETS_DIR", "").split(os.pathsep):
        file = Path(directory) / SECRET_FILE
        if directory and file.is_file():
            return file.read_text()
    return None
