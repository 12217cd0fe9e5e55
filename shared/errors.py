"""The two ways work can go wrong, as types; `shared.runtime` alone decides what follows from them."""

from typing import TypeVar

E = TypeVar("E", bound="VigilError")


class VigilError(Exception):
    """Base of every error that Vigil raises on purpose."""

    unbilled = False
    """True where the other side certainly charges nothing for what failed: it refused it, or was never reached."""


class TransientError(VigilError):
    """May succeed when tried again: a timeout, a rate limit, a server that is away.

    `retry_in_seconds` is the least wait the other side asked for (Retry-After); None leaves it to the runtime.
    `counts` is False where the failure says nothing about the work itself (a lease held elsewhere, a provider that is
    away or limits requests), so that it uses up none of the step's attempts. See also `RetrySoonError`.
    """

    is_final = False
    """True where only somebody else may try again: whoever sees it must write nothing more."""

    def __init__(
        self, message: str, *, retry_in_seconds: float | None = None, counts: bool = True
    ) -> None:
        super().__init__(message)
        self.retry_in_seconds = retry_in_seconds
        self.counts = counts


class RetrySoonError(TransientError):
    """Vigil itself is in the way for a moment: PostgreSQL is away, or another worker has changed the same row.

    It uses up no attempt, and the step is tried again within seconds. Any other TransientError that does not count says
    that a provider is away or limits requests, which can take hours: the step waits, with growing pauses.
    """

    def __init__(self, message: str, *, retry_in_seconds: float | None = None) -> None:
        super().__init__(message, retry_in_seconds=retry_in_seconds, counts=False)


class PermanentError(VigilError):
    """Will fail however often it is tried: a wrong key, an unknown model, a request the server refuses.

    `code` is a short stable word for programs; the message tells people what is wrong and what to do.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def unbilled(error: E) -> E:
    """`error`, known to have cost nothing."""
    error.unbilled = True
    return error
