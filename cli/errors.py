"""Errors that end a command. `cli.local.errors` has those of a local installation."""

from typing import ClassVar

from shared.errors import VigilError


class CommandError(VigilError):
    """Ends the command; its message is printed without a traceback."""

    exit_code: ClassVar[int] = 1


class BadInputError(CommandError):
    """An argument, option or setting is invalid; nothing was started or changed."""

    exit_code: ClassVar[int] = 2


class AwayError(CommandError):
    """The installation does not answer at the moment; a later attempt may succeed."""


class NothingRunsError(CommandError):
    """No installation runs here and none is named."""
