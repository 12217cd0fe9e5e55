"""Failed answers: why an attempt gave no usable answer, and what a server says in its error."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from shared.billing.resumable_call import CallLostError
from shared.database.text import storable
from shared.errors import PermanentError, TransientError
from shared.server_json import as_text, read_json, words_of

EXCERPT_CHARS: Final = 500
"""Characters of the server's answer that are stored with an error."""
UNAVAILABLE_STATUSES: Final = frozenset({408, 409, 425, 429})
_UNAVAILABLE_CODES: Final = frozenset(
    {"rate_limit_exceeded", "rate_limit_error", "server_error", "overloaded", "overloaded_error"}
)


class FailureKind(StrEnum):
    """Why an attempt that may have been billed gave no usable answer."""

    UNUSABLE = "unusable"
    NO_ANSWER = "no_answer"
    """The server works, but the model refused, repeated itself endlessly or gave an empty answer."""
    CUT_OFF = "cut_off"
    TIMEOUT = "timeout"


COMPLETE_KINDS: Final = frozenset({FailureKind.UNUSABLE, FailureKind.NO_ANSWER})


@dataclass(frozen=True)
class Usage:
    """The server's token usage. None if it is missing or implausible."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int = 0
    """Of the input, what the provider read from its cache, which costs less."""
    reasoning_tokens: int = 0
    """Of the output, what the model spent on reasoning."""
    service_tier: str | None = None
    """The tier that served the request, such as `flex`: it has prices of its own."""
    fault: str | None = None
    """Why the usage is unusable, if it is."""
    is_missing: bool = False
    """Whether the server sent no usage, or none but zeros."""
    read_tokens: int | None = None
    """The input tokens at the most: some servers count those of their cache apart."""


UNKNOWN_USAGE: Final = Usage()


class AnswerError(TransientError):
    """The server accepted the request and may bill it, but gave no usable answer."""

    def __init__(
        self,
        message: str,
        *,
        kind: FailureKind = FailureKind.UNUSABLE,
        excerpt: str = "",
        usage: Usage = UNKNOWN_USAGE,
        counts: bool = True,
        is_error_body: bool = False,
        is_filtered: bool = False,
        has_no_end: bool = False,
        generation: str = "",
        is_unbilled: bool = False,
    ) -> None:
        super().__init__(message, counts=counts, is_unbilled=is_unbilled)
        self.generation = generation
        """Text that the model generated, if the server could not parse it and sent it as an error."""
        self.is_filtered = is_filtered
        """Whether a filter of the provider withheld the answer, because of the request or of the answer."""
        self.has_no_end = has_no_end
        """Whether the server ended a stream without saying that the answer is complete."""
        self.is_error_body = is_error_body
        """Whether the message is the server's own error, not text of a model."""
        self.kind = kind
        self.excerpt: str = storable(excerpt[:EXCERPT_CHARS])
        """The beginning of the server's answer."""
        self.usage = usage

    @property
    def is_whole(self) -> bool:
        """Whether the answer was complete, so that an immediate retry does not help."""
        return self.kind in COMPLETE_KINDS


class AnswerTimeoutError(AnswerError):
    """A time limit of the settings expired. The server may bill what it generated so far."""

    def __init__(self, message: str) -> None:
        super().__init__(message, kind=FailureKind.TIMEOUT)


class LostAnswerError(CallLostError):
    """An answer that the server has stored is `unusable`. It will not change, so the call must be sent again."""

    def __init__(self, unusable: AnswerError) -> None:
        super().__init__(str(unusable))
        self.unusable = unusable


class NoAnswerError(PermanentError):
    """The model refused, repeated itself or gave an empty answer too often.

    `is_filtered`: a filter of the provider withheld the last answer.
    """

    def __init__(self, message: str, *, is_filtered: bool = False) -> None:
        super().__init__("no_answer", message)
        self.is_filtered = is_filtered


class MalformedAnswerError(ValueError):
    """An answer does not have the structure of a chat completion. The message says where."""


_FILTER_WORDS: Final = re.compile(
    r"content.?(?:filter|policy|management|moderation)|responsible.?ai|data.?inspection|inappropriate|moderation"
    r"|(?:content|usage|community|safety|ethic\w*|acceptable.?use)[ _-]?(?:guidelines?|polic|rules|standards|check)"
    r"|violat\w+ (?:\w+ ){0,5}(?:guidelines?|polic|terms|rules|safety|standards)|(?:policy|safety|content).?violation"
    r"|(?:prompt|input|request|message|content)s? (?:\w+ ){0,4}(?:flagged|blocked|unsafe|harmful)"
    r"|flagged (?:as|by|for)|jailbreak|safety.{0,20}(?:filter|system|polic|setting|reason)"
    r"|(?:prohibited|disallowed).?content"
    r"|(?:new|is|text|content)[ _]sensitive|sensitive.?(?:content|information|words?)|content exists risk"
    r"|invalid_prompt|guard.?rail|model.?armor|block.?reason|敏感|违规|违禁|不合规|不安全",
    re.IGNORECASE,
)
"""In an error of a provider that filters by what texts say."""
_FILTER_CODES: Final = frozenset({"1301", "1026", "1027"})
"""Codes of Zhipu and MiniMax for such an error."""


def is_filter_error(body: Any, error: Any) -> bool:
    """Whether a provider refuses a text of the request, by the response `body` and the `error` in it."""
    codes = [
        str(each[name])
        for each in objects_in(error)
        for name in ("code", "type", "status", "reason", "status_code")
        if isinstance(each.get(name), str | int)
    ]
    fields = " ".join(body) if isinstance(body, dict) else ""
    words = f"{' '.join(codes)} {fields} {words_of(error)}"
    return not _FILTER_CODES.isdisjoint(codes) or _FILTER_WORDS.search(words) is not None


def failed_generation(error: Any) -> str:
    """Return generated text that its server could not parse, from the error of Groq and others; empty if there is none."""
    texts = (each.get("failed_generation") for each in objects_in(error))
    return next((text for text in texts if isinstance(text, str)), "")


def objects_in(error: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """The objects of an error, outermost first. Gateways pass on the provider's error as an object or as JSON text."""
    if isinstance(error, str) and error.lstrip()[:1] == "{":
        with suppress(ValueError):
            error = read_json(error)
    if isinstance(error, dict) and depth < 4:
        yield error
        for value in error.values():
            yield from objects_in(value, depth + 1)


def is_unavailable(code: Any) -> bool:
    if isinstance(code, str) and code.isdecimal() and len(code) == len("429"):
        code = int(code)
    if isinstance(code, int):
        return code in UNAVAILABLE_STATUSES or 500 <= code < 600
    return isinstance(code, str) and code in _UNAVAILABLE_CODES


def excerpt_of(value: Any) -> str:
    """Returns the beginning of `value` for an error message."""
    text = value if isinstance(value, str) else as_text(value)[: 4 * EXCERPT_CHARS]
    text = " ".join(text[: 4 * EXCERPT_CHARS].split())
    return storable(text if len(text) <= EXCERPT_CHARS else f"{text[:EXCERPT_CHARS]}…") or "''"


def parse_body(server: str, body: str) -> Any:
    """Parses a response body that should be JSON. Raises AnswerError."""
    try:
        return read_json(body)
    except ValueError as error:
        raise AnswerError(
            f"{server} did not return JSON ({error}): {excerpt_of(body)}", excerpt=body
        ) from None
