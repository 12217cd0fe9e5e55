"""Assembles an answer from the body of a server's response."""

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
    choice_finish_reason,
    choice_message,
    first_choice,
    message_calls,
    parse_completion,
    parse_usage,
    raise_error_in,
    read_call,
    read_json,
)
from shared.llm.messages import ChatAnswer, ToolCall

_END: Final = "[DONE]"
_EVENT_FIELDS: Final = (b"data:", b"event:", b"id:", b"retry:", b":")
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


class Received:
    """Assembles an answer from a response body, which can be a stream of events or one object, regardless of the request.

    It does not use the SDK, whose types fail on small differences between servers.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._is_stream: bool | None = None
        """None until enough of the body is there to recognize a stream of events."""
        self._body: list[bytes] = []
        """The body so far, unless it is a stream."""
        self._lines = EventLines()
        self._beginning_chunks = ""
        self._parts = AnswerParts()
        self._calls: list[_Call] = []
        self._by_index: dict[int | None, _Call] = {}
        """The call to which chunks of an index currently belong; the newest call for chunks without an index."""
        self._has_choice = False
        self.is_done = False
        """Whether the server marked the end of the stream."""
        self.characters = 0
        """Characters of text, reasoning and tool arguments so far."""
        self.bytes = 0

    @property
    def text(self) -> str:
        """The text of the answer so far."""
        return self._parts.text

    def take(self, piece: bytes, *, is_last: bool = False) -> bool:
        """Adds a piece of the body. Returns whether the text has grown. Raises AnswerError."""
        self.bytes += len(piece)
        if self._is_stream is None:
            piece = b"".join([*self._body, piece]).lstrip().removeprefix(codecs.BOM_UTF8).lstrip()
            self._body = []
            if len(piece) >= _ENOUGH_BYTES or is_last:
                self._is_stream = piece.startswith(_EVENT_FIELDS)
        if not self._is_stream:
            self._body.append(piece)
            return False
        grown = [self._take_event(data) for data in self._lines.feed(piece)]
        return any(grown)

    def answer(self) -> ChatAnswer:
        """Returns the complete answer. Raises AnswerError if it is truncated, empty or unusable."""
        self.take(b"", is_last=True)
        if not self._is_stream:
            return parse_completion(self._server, b"".join(self._body).decode("utf-8", "replace"))
        for data in self._lines.feed(b"", is_last=True):
            if not _is_whole(data):
                raise self._cut_off("its last event is incomplete")
            self._take_event(data)
        parts = self._parts
        if not self._has_choice:
            raise AnswerError(
                f"{self._server} streamed an answer without any choice: {self._beginning_chunks.strip()!r}",
                excerpt=self._beginning_chunks,
                usage=parts.usage,
            )
        if parts.finish_reason is None and not self.is_done:
            raise self._cut_off("the stream ended without a finish reason")
        parts.calls = [
            ToolCall(call.id, call.name, "".join(call.arguments)) for call in self._calls
        ]
        return parts.answer(self._server, parts.refusal or self._beginning)

    def progress(self) -> str:
        """Describes what was received so far."""
        return f"{self.bytes} bytes, {self.characters} characters of an answer"

    def explained(self, error: AnswerError) -> AnswerError:
        """Adds what was received so far to `error`."""
        if error.excerpt:
            return error
        if error.kind is FailureKind.CUT_OFF:
            return self._cut_off(str(error))
        return error.with_excerpt(self._beginning)

    @property
    def _beginning(self) -> str:
        """The text so far or, if there is none, the beginning of the body."""
        if not self._is_stream:
            return b"".join(self._body)[: 4 * EXCERPT_CHARS].decode("utf-8", "replace")
        return self.text or self._beginning_chunks

    def _cut_off(self, reason: str) -> AnswerError:
        """Returns the error for a body that ended too early."""
        amount = f"{self.characters} characters" if self._is_stream else f"{self.bytes} bytes"
        return AnswerError(
            f"the answer of {self._server} broke off after {amount}: {reason}",
            kind=FailureKind.CUT_OFF,
            excerpt=self._beginning,
            usage=self._parts.usage,
        )

    def _take_event(self, data: str) -> bool:
        """Adds an event. Returns whether the text has grown. Raises AnswerError if it is an error or malformed."""
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

    def _take_chunk(self, chunk: Any) -> bool:
        choice = first_choice(chunk)
        if chunk.get("usage") is not None:
            self._parts.usage = parse_usage(chunk["usage"])
        if choice is None:
            return False
        self._has_choice = True
        self._parts.finish_reason = choice_finish_reason(choice) or self._parts.finish_reason
        delta = choice.get("delta", choice.get("message"))
        if delta == {} or (delta is None and choice.get("text") is None):
            return False
        if delta is None:
            delta = choice_message(choice)
        if not isinstance(delta, dict):
            raise MalformedAnswerError("its delta is no object")
        for call in message_calls(delta):
            self._take_call(call)
        thoughts = [delta[key] for key in _THOUGHT_KEYS & delta.keys()]
        text_characters = self._parts.add_message(delta)
        self.characters += text_characters
        self.characters += sum(len(thought) for thought in thoughts if isinstance(thought, str))
        return text_characters > 0

    def _take_call(self, chunk: dict[str, Any]) -> None:
        has_function = chunk.get("function") or "name" in chunk
        piece = read_call(chunk if has_function else {**chunk, "function": {}})
        index = _index(chunk)
        call = self._by_index.get(index)
        # Some servers send each call in one chunk, all with the same index or without one. Then a new id starts a new call,
        # and without an index a new name does too.
        is_other = call is not None and (
            bool(piece.id and call.id and piece.id != call.id)
            or bool(index is None and not piece.id and piece.name and call.name)
        )
        if call is None or is_other:
            if not piece.name and not piece.id and not piece.arguments:
                raise MalformedAnswerError("a tool call has neither a name nor arguments")
            call = self._by_index[index] = self._by_index[None] = _Call()
            self._calls.append(call)
        call.id = call.id or piece.id
        call.name = call.name or piece.name
        call.arguments.append(piece.arguments)
        self.characters += len(piece.arguments)


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
