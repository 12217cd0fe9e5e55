"""Assembles an answer from the chunks of a server's stream."""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from shared.llm.answers import (
    EXCERPT_CHARS,
    AnswerError,
    AnswerParts,
    FailureKind,
    MalformedAnswerError,
    call_function,
    choice_finish_reason,
    choice_message,
    content_text,
    first_choice,
    function_arguments,
    function_name,
    message_calls,
    parse_completion,
    parse_usage,
    raise_error_in,
    read_json,
    tool_call_id,
)
from shared.llm.messages import ChatAnswer, ToolCall

_END: Final = "[DONE]"
_ENOUGH_BYTES: Final = 8
"""First bytes of a body that are enough to recognize a stream of events."""
_THOUGHT_KEYS: Final = frozenset({"reasoning_content", "reasoning", "thinking"})


class EventLines:
    """Decodes server-sent events: takes bytes and yields the data of complete events."""

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._data: list[bytes] = []
        self._ended_with_return = False

    def feed(self, piece: bytes, *, is_last: bool = False) -> Iterator[str]:
        if piece:
            begins_within_break = self._ended_with_return and piece.startswith(b"\n")
            self._ended_with_return = piece.endswith(b"\r")
            piece = piece[1:] if begins_within_break else piece
        lines = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        if len(lines) > 1 and self._line:
            lines[0] = b"".join((*self._line, lines[0]))
            self._line = []
        self._line.append(lines.pop())
        if is_last:
            lines += [b"".join(self._line), b""]
        for line in lines:
            if line:
                # Comments begin with a colon and have an empty name.
                name, _, value = line.partition(b":")
                if name == b"data":
                    self._data.append(value.removeprefix(b" "))
            elif self._data:
                yield b"\n".join(self._data).decode("utf-8", "replace")
                self._data = []


@dataclass
class _Call:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class Streamed:
    """Assembles the chunks of a stream. It does not use the SDK, whose types fail on small differences between servers."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._parts = AnswerParts()
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        """The call to which chunks of an index currently belong."""
        self._texts: list[str] = []
        self._has_choice = False
        self.is_done = False
        """Whether the server marked the end of the stream."""
        self.characters = 0
        """Characters of text, reasoning and tool arguments so far."""
        self._beginning_chunks = ""

    @property
    def text(self) -> str:
        """The text of the answer so far."""
        if len(self._texts) > 1:
            self._texts = ["".join(self._texts)]
        return self._texts[0] if self._texts else ""

    def take(self, data: str) -> bool:
        """Adds a chunk. Returns whether the text has grown. Raises AnswerError if it is an error or malformed."""
        if len(self._beginning_chunks) < EXCERPT_CHARS:
            self._beginning_chunks += f"{data[:EXCERPT_CHARS]}\n"
        if data.strip() == _END:
            self.is_done = True
            return False
        try:
            chunk = read_json(data)
            if not chunk:
                return False
            raise_error_in(self._server, chunk)
            return self._take_chunk(chunk)
        except ValueError as error:
            raise AnswerError(
                f"{self._server} streamed what is no chunk of a chat completion, {error}: "
                f"{data[:EXCERPT_CHARS]}",
                excerpt=data,
                usage=self._parts.usage,
            ) from None

    @property
    def beginning(self) -> str:
        """The text so far or, if there is none, the beginning of the raw chunks."""
        return self.text or self._beginning_chunks

    def answer(self) -> ChatAnswer:
        """Returns the complete answer. Raises AnswerError if it is truncated, empty or unusable."""
        parts = self._parts
        if not self._has_choice:
            raise AnswerError(
                f"{self._server} streamed an answer without any choice: {self._beginning_chunks.strip()!r}",
                excerpt=self._beginning_chunks,
                usage=parts.usage,
            )
        if parts.finish_reason is None and not self.is_done:
            raise self.cut_off("the stream ended without a finish reason")
        parts.text = self.text
        parts.calls = [
            ToolCall(call.id, call.name, "".join(call.arguments) or "{}") for call in self._calls
        ]
        return parts.answer(self._server, parts.refusal or self.beginning)

    def cut_off(self, reason: str) -> AnswerError:
        """Returns the error for a stream that ended too early."""
        return AnswerError(
            f"the answer of {self._server} broke off after {self.characters} characters: {reason}",
            kind=FailureKind.CUT_OFF,
            excerpt=self.beginning,
            usage=self._parts.usage,
        )

    def _take_chunk(self, chunk: Any) -> bool:
        choice = first_choice(chunk)
        if chunk.get("usage") is not None:
            self._parts.usage = parse_usage(chunk["usage"])
        if choice is None:
            return False
        self._has_choice = True
        self._parts.finish_reason = choice_finish_reason(choice) or self._parts.finish_reason
        delta = choice.get("delta", choice.get("message"))
        if delta is None and choice.get("text") is None:
            return False
        if delta == {}:
            return False
        return self._take_delta(choice_message(choice) if delta is None else delta)

    def _take_delta(self, delta: Any) -> bool:
        if not isinstance(delta, dict):
            raise MalformedAnswerError("its delta is no object")
        for call in message_calls(delta):
            self._take_call(call)
        text, refusal = content_text(delta.get("content"))
        own_refusal = delta.get("refusal")
        self._parts.refusal += refusal + (own_refusal if isinstance(own_refusal, str) else "")
        self.characters += len(text)
        for key in _THOUGHT_KEYS & delta.keys():
            self.characters += len(delta[key]) if isinstance(delta[key], str) else 0
        if text:
            self._texts.append(text)
        return bool(text)

    def _take_call(self, piece: dict[str, Any]) -> None:
        function = call_function(piece) if piece.get("function") or "name" in piece else {}
        name, arguments, call_id = (
            function_name(function),
            function_arguments(function),
            tool_call_id(piece),
        )
        index = _index(piece)
        call = self._call_at(index)
        # Some servers send each call in one chunk, all with the same index or without one. Then a new id starts a new call,
        # and without an index a new name does too.
        is_other = call is not None and (
            bool(call_id and call.id and call_id != call.id)
            or bool(index is None and not call_id and name and call.name)
        )
        if call is None or is_other:
            if not name and not call_id and not arguments:
                raise MalformedAnswerError("a tool call has neither a name nor arguments")
            call = _Call()
            self._calls.append(call)
            if index is not None:
                self._by_index[index] = call
        call.id = call.id or call_id
        call.name = call.name or name or ""
        if arguments:
            call.arguments.append(arguments)
            self.characters += len(arguments)

    def _call_at(self, index: int | None) -> _Call | None:
        if index is None:
            return self._calls[-1] if self._calls else None
        return self._by_index.get(index)


class Received:
    """Receives a response body, which can be a stream of events or one object, regardless of the request."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._head = b""
        self._has_events = False
        self._whole: list[bytes] | None = None
        self._lines = EventLines()
        self.streamed = Streamed(server)
        self.bytes = 0

    @property
    def characters(self) -> int:
        """Characters of the answer so far."""
        return self.streamed.characters

    @property
    def is_done(self) -> bool:
        """Whether the server marked the end of the stream."""
        return self.streamed.is_done

    def take(self, piece: bytes) -> bool:
        """Adds a piece of the body. Returns whether the text has grown. Raises AnswerError."""
        self.bytes += len(piece)
        if self._whole is not None:
            self._whole.append(piece)
            return False
        if not self._has_events:
            piece = (self._head + piece).lstrip().removeprefix(codecs.BOM_UTF8).lstrip()
            self._head = piece
            if len(piece) < _ENOUGH_BYTES:
                return False
            self._has_events = self._is_events()
            if not self._has_events:
                self._whole = [piece]
                return False
        grown = [self.streamed.take(data) for data in self._lines.feed(piece)]
        return any(grown)

    def answer(self) -> ChatAnswer:
        """Returns the complete answer. Raises AnswerError."""
        if not self._has_events and self._whole is None:
            self._has_events = self._is_events()
            self._whole = None if self._has_events else [self._head]
            if self._has_events:
                for data in self._lines.feed(self._head):
                    self.streamed.take(data)
        if self._whole is not None:
            body = b"".join(self._whole)
            return parse_completion(self._server, body.decode("utf-8", "replace"))
        for data in self._lines.feed(b"", is_last=True):
            if not _is_whole(data):
                raise self.cut_off("its last event is incomplete")
            self.streamed.take(data)
        return self.streamed.answer()

    def progress(self) -> str:
        """Describes what was received so far."""
        return f"{self.bytes} bytes, {self.characters} characters of an answer"

    def explained(self, error: AnswerError) -> AnswerError:
        """Adds what was received so far to `error`."""
        if error.excerpt:
            return error
        if error.kind is FailureKind.CUT_OFF:
            return self.cut_off(str(error))
        return error.with_excerpt(self._beginning())

    def cut_off(self, reason: str) -> AnswerError:
        """Returns the error for a body that ended too early."""
        if self._whole is None:
            return self.streamed.cut_off(reason)
        return AnswerError(
            f"the answer of {self._server} broke off after {self.bytes} bytes: {reason}",
            kind=FailureKind.CUT_OFF,
            excerpt=self._beginning(),
        )

    def _beginning(self) -> str:
        if self._whole is None:
            return self.streamed.beginning
        return b"".join(self._whole)[: 4 * EXCERPT_CHARS].decode("utf-8", "replace")

    def _is_events(self) -> bool:
        return self._head.startswith((b"data:", b"event:", b"id:", b"retry:", b":"))


def _is_whole(data: str) -> bool:
    """Whether the data of an event is complete."""
    try:
        read_json(data)
    except ValueError:
        return data.strip() == _END
    return True


def _index(piece: dict[str, Any]) -> int | None:
    index = piece.get("index")
    if isinstance(index, str) and index.isdecimal() and len(index) < len("1000000"):
        return int(index)
    return index if isinstance(index, int) else None
