"""Errors that end a command, and what is printed of each. `cli.local.errors` has those of a local installation."""

from typing import ClassVar, Final

from shared.errors import VigilError

BAD_INPUT: Final = 2


class CommandError(VigilError):
    """Ends the command; its message is printed without a traceback."""

    exit_code: ClassVar[int] = 1


class BadInputError(CommandError):
    """An argument, option or setting is invalid; nothing was started or changed."""

    exit_code: ClassVar[int] = BAD_INPUT


class AwayError(CommandError):
    """The installation does not answer at the moment; a later attempt may succeed."""


class NothingRunsError(CommandError):
    """No installation runs here and none is named."""


def describe(error: Exception) -> tuple[str, int]:
    """The message of an error in words for users, and the exit code of the command that it ended."""
    match error:
        case VigilError():
            return str(error), getattr(error, "exit_code", 1)
        case UnicodeEncodeError():
            # Python reads each byte that is not UTF-8 as a lone surrogate, which cannot be encoded.
            byte = ord(error.object[error.start]) & 0xFF
            text = f"an argument or the input is not valid UTF-8: it contains the byte 0x{byte:02x}"
            return text, BAD_INPUT
        case UnicodeDecodeError():
            invalid = error.object[error.start]
            return f"the input is not valid UTF-8: it contains the byte 0x{invalid:02x}", BAD_INPUT
        case OSError():
            return _describe_os_error(error), 1
        case _ if type(error).__name__ == "ValidationError":
            return (
                "the API sent an unexpected response: check that it runs the same version of Vigil as this command",
                1,
            )
        case _:
            return (
                f"internal error, {type(error).__name__}: {error}. Run the command again with VIGIL_TRACEBACK=1 "
                "and report this error with the traceback",
                1,
            )


def _describe_os_error(error: OSError) -> str:
    """The file, or the output, and what is wrong with it."""
    reason = error.strerror or str(error) or type(error).__name__
    return f"{error.filename or 'the output'}: {reason[:1].lower()}{reason[1:]}"
