"""Reads chat completions as servers really send them, and says what is wrong with those that cannot be used.

Servers differ from OpenAI in small things: arguments as an object, content in parts, no ids, no usage. Such an answer is
understood. Any other raises AnswerError, which carries the server's words and, where it told them, the tokens it took.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Self

from shared.database.text import storable
from shared.errors import TransientError
from shared.llm.messages import ChatAnswer, ToolCall, assistant_message

SAID_CHARACTERS: Final = 500
"""How much of what the server said is kept with an error."""
TOKENS_BELOW: Final = 10**9
MAX_ANSWER_CHARACTERS: Final = 4_000_000
"""Of text and tool arguments together: far more than any limit of output tokens allows."""
MAX_READ_CALLS: Final = 1000
"""Tool calls of one answer that are read at all; how many of them are made is up to the tool loop."""

_REPEATED_CHARACTERS: Final = 2000
_LONGEST_PERIOD: Final = 500
_MAX_INT_DIGITS: Final = 300
_THOUGHTS: Final = re.compile(r"\A\s*<think>.*?</think>\s*", re.DOTALL)
_AWAY_CODES: Final = frozenset(
    {"rate_limit_exceeded", "rate_limit_error", "server_error", "overloaded", "overloaded_error"}
)
_AWAY_STATUSES: Final = frozenset({408, 409, 425, 429})


class FailureKind(StrEnum):
    """Why a sending that may have been billed brought nothing."""

    UNUSABLE = "unusable"
    NO_ANSWER = "no_answer"
    """The server works, and its model gave nothing: a refusal, a repetition without end, nothing at all."""
    CUT_OFF = "cut_off"
    TIMEOUT = "timeout"


WHOLE: Final = frozenset({FailureKind.UNUSABLE, FailureKind.NO_ANSWER})


@dataclass(frozen=True)
class Usage:
    """The tokens that a server says it took; None where it does not say, or where what it says cannot be right."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    fault: str | None = None
    """Why it is not usable, in words."""


UNKNOWN_USAGE: Final = Usage()


class AnswerError(TransientError):
    """The server took the request and may bill it, but no usable answer came of it."""

    def __init__(
        self,
        message: str,
        *,
        kind: FailureKind = FailureKind.UNUSABLE,
        said: str = "",
        usage: Usage = UNKNOWN_USAGE,
        counts: bool = True,
        is_error_body: bool = False,
    ) -> None:
        super().__init__(message, counts=counts)
        self.is_error_body = is_error_body
        """Whether these are the server's own words of an error, and not a model's."""
        self.kind = kind
        self.said: str = storable(said[:SAID_CHARACTERS])
        """The beginning of what the server said."""
        self.usage = usage
        self.is_recorded = False
        """Whether the ledger has it."""

    @property
    def is_whole(self) -> bool:
        """Whether the answer came whole, so that sending the same again at once brings nothing better."""
        return self.kind in WHOLE

    def having_said(self, said: str) -> Self:
        """This error, with the beginning of what the server said."""
        self.said = storable(said[:SAID_CHARACTERS])
        return self


class AnswerTimeoutError(AnswerError):
    """The server took longer than a setting allows, and was given up: it may bill what it has made so far."""

    def __init__(self, message: str) -> None:
        super().__init__(message, kind=FailureKind.TIMEOUT)


def read_json(text: str) -> Any:
    """Raises ValueError for what is no JSON, and for JSON that is nested too deeply."""
    try:
        return json.loads(text, strict=False, parse_int=_bounded_int)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def usage_of(
    raw: Any, input_name: str = "prompt_tokens", output_name: str = "completion_tokens"
) -> Usage:
    """Counts are integers from 0 up to 10^9; where one is anything else, none is believed."""
    if raw is None:
        return Usage(fault="the server's usage is not usable: it sent none")
    if not isinstance(raw, dict):
        return Usage(fault=f"the server's usage is not usable: it is {_excerpt(raw)}")
    for name in (input_name, output_name):
        if not _is_count(raw.get(name)):
            return Usage(
                fault=f"the server's usage is not usable: {name} is {_excerpt(raw.get(name))}"
            )
    return Usage(raw[input_name], raw[output_name])


@dataclass
class Said:
    """What a model said, whole or so far, whichever way the server sends it."""

    text: str = ""
    refusal: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    finish_reason: str | None = None
    usage: Usage = field(default_factory=lambda: usage_of(None))

    def answer(self, server: str, said: str) -> ChatAnswer:
        """Raises AnswerError for a refusal, and for what is too large or says nothing. `said` is the server's own words."""
        fault = self._fault()
        if fault is not None:
            kind = FailureKind.UNUSABLE if self._is_servers_fault else FailureKind.NO_ANSWER
            raise AnswerError(f"{server}: {fault}", kind=kind, said=said, usage=self.usage)
        text = _THOUGHTS.sub("", self.text)
        return ChatAnswer(
            message=assistant_message(text or None, self.calls),
            finish_reason=self.finish_reason or ("tool_calls" if self.calls else "stop"),
            input_tokens=self.usage.input_tokens,
            output_tokens=self.usage.output_tokens,
            usage_fault=self.usage.fault,
        )

    @property
    def _is_servers_fault(self) -> bool:
        return self.finish_reason == "error"

    def _fault(self) -> str | None:
        is_empty = not self.text and not self.calls
        if self.refusal and is_empty:
            return f"the model refused: {_excerpt(self.refusal)}"
        if self.finish_reason == "content_filter":
            return f"the server's content filter withheld the answer: {_excerpt(self.text)}"
        if self._is_servers_fault:
            return f"the server gave the answer up: {_excerpt(self.text)}"
        if len(self.calls) > MAX_READ_CALLS:
            return f"the answer has {len(self.calls)} tool calls, more than {MAX_READ_CALLS}"
        if not all(call.name for call in self.calls):
            return "a tool call of the answer names no tool"
        arguments = [call.arguments for call in self.calls]
        length = len(self.text) + sum(map(len, arguments))
        if length > MAX_ANSWER_CHARACTERS:
            return f"the answer has {length} characters, more than {MAX_ANSWER_CHARACTERS}"
        return self._limit_fault(is_empty, arguments)

    def _limit_fault(self, is_empty: bool, arguments: Sequence[str]) -> str | None:
        if self.finish_reason != "length":
            return None
        if is_empty:
            return (
                "the model used up its output tokens before it answered; "
                "raise VIGIL_MOST_OUTPUT_TOKENS"
            )
        repeated = repeated_text(arguments[-1] if arguments else self.text)
        if repeated is not None:
            return f"the model repeated itself until its token limit: {_excerpt(repeated)}"
        return None


def read_completion(server: str, body: str) -> ChatAnswer:
    """The answer in a whole response body. Raises AnswerError."""
    try:
        completion = read_json(body)
    except ValueError as error:
        raise AnswerError(
            f"{server} did not answer with JSON ({error}): {_excerpt(body)}", said=body
        ) from None
    raise_error_in(server, completion)
    usage = usage_of(completion.get("usage") if isinstance(completion, dict) else None)
    try:
        choice = choice_of(completion)
        if choice is None:
            raise UnreadableError("it has no choices")
        said = Said(usage=usage, finish_reason=finish_reason_of(choice))
        take_message(said, message_of(choice))
    except UnreadableError as error:
        raise AnswerError(
            f"{server} sent an answer that is not a chat completion, {error}: {_excerpt(body)}",
            said=body,
            usage=usage,
        ) from None
    return said.answer(server, body)


class UnreadableError(ValueError):
    """An answer has not the shape of a chat completion; the message says where."""


def choice_of(completion: Any) -> dict[str, Any] | None:
    """The first choice; None where there is none. Raises UnreadableError."""
    if not isinstance(completion, dict):
        raise UnreadableError(f"it is {_kind(completion)} and no object")
    choices = completion.get("choices")
    if isinstance(choices, dict):
        choices = [choices] if _MESSAGE_KEYS & choices.keys() else list(choices.values())
    if choices is None or choices == []:
        return None
    if not isinstance(choices, list) or not isinstance(choices[0], dict):
        raise UnreadableError(f"its choices are {_kind(choices)}")
    return choices[0]


def message_of(choice: dict[str, Any]) -> dict[str, Any]:
    """Raises UnreadableError where there is no message that says anything."""
    message = choice.get("message", choice.get("delta"))
    if message is None and isinstance(choice.get("text"), str):
        return {"content": choice["text"]}
    if not isinstance(message, dict):
        raise UnreadableError(f"its message is {_kind(message)}")
    if not _ANSWER_KEYS & message.keys():
        raise UnreadableError("its message has neither content nor tool calls")
    return message


def finish_reason_of(choice: dict[str, Any]) -> str | None:
    reason = choice.get("finish_reason")
    return reason if isinstance(reason, str) and reason else None


def take_message(said: Said, message: dict[str, Any]) -> None:
    """Adds a whole message to `said`. Raises UnreadableError."""
    text, refusal = text_of(message.get("content"))
    said.text += text
    given = message.get("refusal")
    said.refusal += refusal + (given if isinstance(given, str) else "")
    for call in calls_of(message):
        function = function_of(call)
        said.calls.append(
            ToolCall(id_of(call), name_of(function) or "", arguments_of(function) or "{}")
        )


def calls_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The tool calls, or the one call of the older `function_call`. Raises UnreadableError."""
    calls = message.get("tool_calls")
    if isinstance(calls, dict):
        calls = [calls]
    if not calls and message.get("function_call"):
        calls = [{"function": message["function_call"]}]
    if calls is None or calls == "":
        return []
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise UnreadableError(f"its tool calls are {_kind(calls)}")
    return calls


def function_of(call: dict[str, Any]) -> dict[str, Any]:
    """The function of a call, which some servers write into the call itself. Raises UnreadableError."""
    function = call.get("function", call if "name" in call else None)
    if not isinstance(function, dict):
        raise UnreadableError(f"the function of a tool call is {_kind(function)}")
    return function


def id_of(call: dict[str, Any]) -> str:
    given = call.get("id")
    return str(given) if isinstance(given, str | int) else ""


def name_of(function: dict[str, Any]) -> str | None:
    """None where this piece of a call does not name it. Raises UnreadableError."""
    name = function.get("name")
    if name is not None and not isinstance(name, str):
        raise UnreadableError(f"the name of a tool call is {_kind(name)}")
    return name


def arguments_of(function: dict[str, Any]) -> str | None:
    """As JSON text, which may be wrong; None where there are none. Raises UnreadableError."""
    arguments = function.get("arguments", function.get("parameters"))
    if arguments is None or isinstance(arguments, str):
        return arguments
    return _as_json(arguments)


def text_of(content: Any) -> tuple[str, str]:
    """The text and the refusal in a message's content, which may be a text, a list of parts, or what JSON was asked for."""
    match content:
        case None:
            return "", ""
        case str():
            return content, ""
        case list():
            parts = [_part(part) for part in content]
            return "".join(text for text, _ in parts), "".join(refusal for _, refusal in parts)
        case dict() if "type" in content or "text" in content:
            return _part(content)
        case _:
            return _as_json(content), ""


def raise_error_in(server: str, body: Any) -> None:
    """Raises AnswerError where a response of status 200 says that there is an error."""
    if not isinstance(body, dict) or body.get("choices"):
        return
    error = body.get("error") or (body if body.get("object") == "error" else None)
    error = error or body.get("detail")
    if not error:
        return
    told = error.get("message") or error if isinstance(error, dict) else error
    code = error.get("code") or error.get("type") if isinstance(error, dict) else None
    raise AnswerError(
        f"{server} answered 200 with an error: {_excerpt(told)}",
        said=_excerpt(body),
        usage=usage_of(body.get("usage")),
        counts=not _is_away(code),
        is_error_body=True,
    )


def repeated_text(text: str) -> str | None:
    """What `text` repeats again and again at its end; None where it does not."""
    tail = text[-_REPEATED_CHARACTERS:]
    if len(tail) < _REPEATED_CHARACTERS:
        return None
    for period in range(1, _LONGEST_PERIOD + 1):
        if tail[period:] == tail[:-period]:
            return tail[-period:]
    return None


_MESSAGE_KEYS: Final = frozenset({"message", "delta", "text"})
_ANSWER_KEYS: Final = frozenset(
    {"content", "tool_calls", "function_call", "refusal", "reasoning_content", "reasoning"}
)


def _part(part: Any) -> tuple[str, str]:
    """One part of a content; thoughts and pictures are no part of what was said."""
    if isinstance(part, str):
        return part, ""
    if not isinstance(part, dict):
        return "", ""
    if isinstance(refusal := part.get("refusal"), str):
        return "", refusal
    if part.get("type", "text") not in ("text", "output_text"):
        return "", ""
    text = part.get("text")
    if isinstance(text, dict):
        text = text.get("value")
    return (text if isinstance(text, str) else ""), ""


def _as_json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        raise UnreadableError("it is nested too deeply") from None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < TOKENS_BELOW


def _is_away(code: Any) -> bool:
    if isinstance(code, str) and code.isdecimal() and len(code) == len("429"):
        code = int(code)
    if isinstance(code, int):
        return code in _AWAY_STATUSES or 500 <= code < 600
    return code in _AWAY_CODES


def _bounded_int(digits: str) -> int | float:
    """Python refuses to read very long integers, of which none means anything here."""
    return int(digits) if len(digits) <= _MAX_INT_DIGITS else float("nan")


def _kind(value: Any) -> str:
    return {"NoneType": "null", "list": "a list", "dict": "an object", "str": "a text"}.get(
        type(value).__name__, f"a {type(value).__name__}"
    )


def _excerpt(value: Any) -> str:
    """The beginning of `value`, as words of an error."""
    text = value if isinstance(value, str) else repr(value)[: 4 * SAID_CHARACTERS]
    text = " ".join(text[: 4 * SAID_CHARACTERS].split())
    return storable(text if len(text) <= SAID_CHARACTERS else f"{text[:SAID_CHARACTERS]}…") or "''"
