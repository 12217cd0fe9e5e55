"""Questions to the user. They are asked on stderr, so that stdout has only the result."""

import sys
from getpass import getpass

from cli.errors import BadInputError, CommandError


def confirm(question: str) -> None:
    """Returns if the user confirms. Raises CommandError if not, which also the end of the input means."""
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        print(file=sys.stderr)
    if answer.strip().lower() not in ("y", "yes"):
        raise CommandError(
            "nothing was changed because you did not confirm; to skip the question, use --yes"
        )


def ask_secret(name: str) -> str:
    """What the user types, without showing it. Raises BadInputError at the end of the input."""
    try:
        return getpass(f"{name}: ", stream=sys.stderr)
    except EOFError:
        raise BadInputError(f"{name.lower()}: nothing was entered") from None
