"""Error types: transient and permanent. `shared.runtime` decides what to do about them."""

from collections.abc import Mapping
from typing import Any, Final

USED_UP: Final = "answers no request, because its quota is used up"
"""Predicate of a provider whose quota is used up, for sentences."""


class VigilError(Exception):
    """Base class of all errors that Vigil raises deliberately.

    `is_unbilled`: the provider certainly charges nothing, because it refused the request or was never reached.
    """

    def __init__(self, message: str = "", *, is_unbilled: bool = False) -> None:
        super().__init__(message)
        self.is_unbilled = is_unbilled


class TransientError(VigilError):
    """A failure that a retry may fix: a timeout, a rate limit, an unavailable server.

    `retry_in_seconds` is the minimum wait that the server asked for (Retry-After); None leaves it to the runtime.
    `counts` is False if the failure says nothing about the work itself (another worker holds the lease, the provider is
    unavailable or limits requests). Then it uses none of the step's attempts. See also `RetrySoonError`.
    """

    is_final = False
    """True if this worker must stop and write nothing more. Another worker may retry."""

    def __init__(
        self,
        message: str,
        *,
        retry_in_seconds: float | None = None,
        counts: bool = True,
        is_unbilled: bool = False,
    ) -> None:
        super().__init__(message, is_unbilled=is_unbilled)
        self.retry_in_seconds = retry_in_seconds
        self.counts = counts


class RetrySoonError(TransientError):
    """A short problem within Vigil: PostgreSQL is unavailable, or another worker changed the same row.

    It uses no attempt, and the step is retried within seconds. Any other TransientError with `counts=False` means that a
    provider is unavailable or limits requests, which can take hours. Then the step is retried with increasing delays.
    """

    def __init__(self, message: str, *, retry_in_seconds: float | None = None) -> None:
        super().__init__(message, retry_in_seconds=retry_in_seconds, counts=False)


class UnavailableError(TransientError):
    """A provider did not answer, answered that it is unavailable, or limits requests. It uses no attempt.

    `is_announced`: the log of this process already says that the provider is unavailable. `is_quota`: the quota of the
    provider's plan is used up.
    """

    def __init__(
        self,
        message: str,
        *,
        retry_in_seconds: float | None = None,
        is_rate_limit: bool = False,
        is_announced: bool = False,
        is_quota: bool = False,
        is_unbilled: bool = False,
    ) -> None:
        super().__init__(
            message, retry_in_seconds=retry_in_seconds, counts=False, is_unbilled=is_unbilled
        )
        self.is_rate_limit = is_rate_limit
        self.is_announced = is_announced
        self.is_quota = is_quota


class QuotaUsedUpError(UnavailableError):
    """A provider answers no request until the quota of its plan is renewed or raised."""

    def __init__(self, message: str, *, retry_in_seconds: float | None = None) -> None:
        super().__init__(
            message, retry_in_seconds=retry_in_seconds, is_quota=True, is_unbilled=True
        )


class WaitForProviderError(UnavailableError):
    """A call was not sent, because the provider is known to be unavailable or to allow no more calls now.

    `retry_in_seconds` is then exact: the step is released for this time.
    """

    def __init__(
        self, message: str, *, retry_in_seconds: float | None = None, is_quota: bool = False
    ) -> None:
        super().__init__(
            message,
            retry_in_seconds=retry_in_seconds,
            is_announced=True,
            is_quota=is_quota,
            is_unbilled=True,
        )


class DeletedError(RetrySoonError):
    """The agent or iteration was deleted meanwhile. The next attempt of a step finds the step deleted too."""


class PermanentError(VigilError):
    """A failure that no retry can fix: a wrong key, an unknown model, a request that the server refuses.

    `code` is a short stable identifier for programs. The message tells the user what is wrong and what to do.
    """

    def __init__(self, code: str, message: str, *, is_unbilled: bool = False) -> None:
        super().__init__(message, is_unbilled=is_unbilled)
        self.code = code


_INVALID_VALUES: Final[Mapping[str, str]] = {
    "int_parsing": "write a whole number",
    "int_type": "write a whole number",
    "int_from_float": "write a whole number",
    "int_parsing_size": "the number has too many digits",
    "float_parsing": "write a number",
    "float_type": "write a number",
    "decimal_parsing": "write a number",
    "decimal_type": "write a number",
    "finite_number": "write a finite number",
    "bool_parsing": "write true or false",
    "bool_type": "write true or false",
    "string_type": "write text",
    "string_unicode": "it is not valid UTF-8",
    "string_too_short": "it needs at least {min_length} characters",
    "string_too_long": "it may have at most {max_length} characters",
    "uuid_parsing": "this is not an id",
    "uuid_type": "this is not an id",
    "date_from_datetime_parsing": "write a day, as in 2026-01-31",
    "date_parsing": "write a day, as in 2026-01-31",
    "datetime_parsing": "write a time, as in 2026-01-31T12:00:00Z",
    "datetime_from_date_parsing": "write a time, as in 2026-01-31T12:00:00Z",
    "greater_than": "it must be more than {gt}",
    "greater_than_equal": "it must be {ge} or more",
    "less_than": "it must be less than {lt}",
    "less_than_equal": "it must be {le} or less",
    "literal_error": "choose from {expected}",
    "enum": "choose from {expected}",
    "missing": "it is missing",
    "extra_forbidden": "this field does not exist",
    "dict_type": "write a JSON object",
    "list_type": "write a list",
    "tuple_type": "write a list",
    "too_short": "it needs at least {min_length}",
    "too_long": "it may have at most {max_length}",
    "path_type": "write a path",
}


def describe_invalid_value(fault: Mapping[str, Any]) -> str:
    """What is wrong with a value, and what to write instead. `fault` is an error as pydantic lists it."""
    template = _INVALID_VALUES.get(fault["type"])
    if template is None:
        text = str(fault["msg"]).removeprefix("Value error, ").rstrip(".")
        # A first word in capitals is a name, such as that of a setting.
        return text if text[:2].isupper() else text[:1].lower() + text[1:]
    return template.format_map(fault.get("ctx") or {})
