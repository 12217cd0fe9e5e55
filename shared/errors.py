"""Error types: transient and permanent. `shared.runtime` decides what to do about them."""

from typing import TypeVar

E = TypeVar("E", bound="VigilError")


class VigilError(Exception):
    """Base class of all errors that Vigil raises deliberately."""

    unbilled = False
    """True if the provider certainly charges nothing: it refused the request, or was never reached."""


class TransientError(VigilError):
    """A failure that a retry may fix: a timeout, a rate limit, an unavailable server.

    `retry_in_seconds` is the minimum wait that the server asked for (Retry-After); None leaves it to the runtime.
    `counts` is False if the failure says nothing about the work itself (another worker holds the lease, the provider is
    unavailable or limits requests). Then it uses none of the step's attempts. See also `RetrySoonError`.
    """

    is_final = False
    """True if this worker must stop and write nothing more. Another worker may retry."""

    def __init__(
        self, message: str, *, retry_in_seconds: float | None = None, counts: bool = True
    ) -> None:
        super().__init__(message)
        self.retry_in_seconds = retry_in_seconds
        self.counts = counts


class RetrySoonError(TransientError):
    """A short problem within Vigil: PostgreSQL is unavailable, or another worker changed the same row.

    It uses no attempt, and the step is retried within seconds. Any other TransientError with `counts=False` means that a
    provider is unavailable or limits requests, which can take hours. Then the step is retried with increasing delays.
    """

    def __init__(self, message: str, *, retry_in_seconds: float | None = None) -> None:
        super().__init__(message, retry_in_seconds=retry_in_seconds, counts=False)


class DeletedError(RetrySoonError):
    """The agent or iteration was deleted meanwhile. The next attempt of a step finds the step deleted too."""


class PermanentError(VigilError):
    """A failure that no retry can fix: a wrong key, an unknown model, a request that the server refuses.

    `code` is a short stable identifier for programs. The message tells the user what is wrong and what to do.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def unbilled(error: E) -> E:
    """Marks `error` as not charged by the provider, and returns it."""
    error.unbilled = True
    return error
