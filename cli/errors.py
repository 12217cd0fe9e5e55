"""What the command line ends on, beside what `cli.local` raises."""

from typing import ClassVar

from shared.errors import VigilError


class CommandError(VigilError):
    """Shown to the person as it is, without a traceback."""

    exit_code: ClassVar[int] = 1


class BadInputError(CommandError):
    """What was given cannot be used; nothing has been started or changed."""

    exit_code: ClassVar[int] = 2


class AwayError(CommandError):
    """The installation does not answer just now; it may again."""


class NothingRunsError(CommandError):
    """There is no installation to speak to."""
