"""An answer put together from the pieces in which a server streams it."""

import codecs
from collections.abc import (
    Iterator,
)
from dataclasses import dataclass, field
from typing import Any, Final

from shared.llm.answers import (
    SAID_CHARACTERS,
    AnswerError,
    FailureKind,
    Said,
    UnreadableError,
    arguments_of,
    calls_of,
    choice_of,
    finish_reason_of,
    function_of,
    id_of,
    message_of,
    name_of,
    raise_error_in,
    read_completion,
    read_json,
    text_of,
    usage_of,
)
from shared.llm.messages import ChatAnswer, ToolCall

_END: Final = "[DONE]"
_ENOUGH_BYTES: Final = 8
"""By so many of a body's first bytes it is told whether it is a stream of events."""
_THOUGHT_KEYS: Final = ("reasoning_content", "reasoning", "thinking")


class EventLines:
    """Decodes server-sent events: bytes as they come in, the data of whole events out."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        self._line: list[str] = []
        self._data: list[str] = []
        self._ended_with_return = False

    def feed(self, piece: bytes, *, is_last: bool = False) -> Iterator[str]:
        text = self._decoder.decode(piece, final=is_last)
        if text:
            begins_within_break = self._ended_with_return and text.startswith("\n")
            self._ended_with_return = text.endswith("\r")
            text = text[1:] if begins_within_break else text
        *lines, rest = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for line in lines:
            whole = "".join((*self._line, line))
            self._line = []
            yield from self._take(whole)
        self._line.append(rest)
        if is_last:
            yield from self._take("".join(self._line))
            yield from self._take("")

    def _take(self, line: str) -> Iterator[str]:
        if not line:
            if self._data:
                yield "\n".join(self._data)
                self._data = []
            return
        # Comments begin with a colon and have an empty name.
        name, _, value = line.partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))


@dataclass
class _Call:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class Streamed:
    """Takes the chunks of a stream in their order. By hand and not by the SDK, whose types trip over small differences."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._said = Said()
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        """The call that pieces of an index belong to at present."""
        self._texts: list[str] = []
        self._has_choice = False
        self.is_done = False
        """Whether the server said that nothing follows."""
        self.characters = 0
        """Of text, thoughts and tool arguments, so far."""
        self._began = ""

    @property
    def text(self) -> str:
        """What the answer says so far."""
        if len(self._texts) > 1:
            self._texts = ["".join(self._texts)]
        return self._texts[0] if self._texts else ""

    def take(self, data: str) -> bool:
        """Whether the text has grown. Raises AnswerError where a chunk is an error, or cannot be read."""
        if len(self._began) < SAID_CHARACTERS:
            self._began += f"{data[:SAID_CHARACTERS]}\n"
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
                f"{data[:SAID_CHARACTERS]}",
                said=data,
                usage=self._said.usage,
            ) from None

    @property
    def beginning(self) -> str:
        """What the answer says so far, or where it says nothing, the chunks as they came."""
        return self.text or self._began

    def answer(self) -> ChatAnswer:
        """The whole answer. Raises AnswerError where it broke off, never began, or cannot be used."""
        said = self._said
        if not self._has_choice:
            raise AnswerError(
                f"{self._server} streamed an answer without any choice: {self._began.strip()!r}",
                said=self._began,
                usage=said.usage,
            )
        if said.finish_reason is None and not self.is_done:
            raise self.cut_off("the stream ended without a finish reason")
        said.text = self.text
        said.calls = [
            ToolCall(call.id, call.name, "".join(call.arguments) or "{}") for call in self._calls
        ]
        return said.answer(self._server, said.refusal or self.beginning)

    def cut_off(self, reason: str) -> AnswerError:
        """The error of a stream that ends too early."""
        return AnswerError(
            f"the answer of {self._server} broke off after {self.characters} characters: {reason}",
            kind=FailureKind.CUT_OFF,
            said=self.beginning,
            usage=self._said.usage,
        )

    def _take_chunk(self, chunk: Any) -> bool:
        choice = choice_of(chunk)
        if chunk.get("usage") is not None:
            self._said.usage = usage_of(chunk["usage"])
        if choice is None:
            return False
        self._has_choice = True
        self._said.finish_reason = finish_reason_of(choice) or self._said.finish_reason
        delta = choice.get("delta", choice.get("message"))
        if delta is None and choice.get("text") is None:
            return False
        if delta == {}:
            return False
        return self._take_delta(message_of(choice) if delta is None else delta)

    def _take_delta(self, delta: Any) -> bool:
        if not isinstance(delta, dict):
            raise UnreadableError("its delta is no object")
        for call in calls_of(delta):
            self._take_call(call)
        text, refusal = text_of(delta.get("content"))
        given = delta.get("refusal")
        self._said.refusal += refusal + (given if isinstance(given, str) else "")
        thoughts = (delta.get(key) for key in _THOUGHT_KEYS)
        self.characters += len(text) + sum(len(each) for each in thoughts if isinstance(each, str))
        if text:
            self._texts.append(text)
        return bool(text)

    def _take_call(self, piece: dict[str, Any]) -> None:
        function = function_of(piece) if piece.get("function") or "name" in piece else {}
        name, arguments, call_id = name_of(function), arguments_of(function), id_of(piece)
        index = _index(piece)
        call = self._call_at(index)
        # Some servers send every call whole, all under the same index or under none: there a new id is a new call, and
        # without an index a new name is too.
        is_other = call is not None and (
            bool(call_id and call.id and call_id != call.id)
            or bool(index is None and not call_id and name and call.name)
        )
        if call is None or is_other:
            if not name and not call_id and not arguments:
                raise UnreadableError("a tool call has neither a name nor arguments")
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
    """A response body as it comes, which may be a stream of events or one object, whichever was asked for."""

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
        """Of the answer, so far."""
        return self.streamed.characters

    @property
    def is_done(self) -> bool:
        """Whether the server said that nothing follows."""
        return self.streamed.is_done

    def take(self, piece: bytes) -> bool:
        """Whether the text has grown. Raises AnswerError."""
        self.bytes += len(piece)
        if self._whole is not None:
            self._whole.append(piece)
            return False
        if not self._has_events:
            self._head = piece = (self._head + piece).lstrip()
            if len(piece) < _ENOUGH_BYTES:
                return False
            self._has_events = self._is_events()
            if not self._has_events:
                self._whole = [piece]
                return False
        grown = [self.streamed.take(data) for data in self._lines.feed(piece)]
        return any(grown)

    def answer(self) -> ChatAnswer:
        """Raises AnswerError."""
        if not self._has_events and self._whole is None:
            self._has_events = self._is_events()
            self._whole = None if self._has_events else [self._head]
            if self._has_events:
                for data in self._lines.feed(self._head):
                    self.streamed.take(data)
        if self._whole is not None:
            body = b"".join(self._whole)
            return read_completion(self._server, body.decode("utf-8-sig", "replace"))
        for data in self._lines.feed(b"", is_last=True):
            if not _is_whole(data):
                raise self.cut_off("its last event is incomplete")
            self.streamed.take(data)
        return self.streamed.answer()

    def in_words(self) -> str:
        """What has come so far."""
        return f"{self.bytes} bytes, {self.characters} characters of an answer"

    def explained(self, error: AnswerError) -> AnswerError:
        """`error`, with what the server had said before it."""
        if error.said:
            return error
        if error.kind is FailureKind.CUT_OFF:
            return self.cut_off(str(error))
        return error.having_said(self._beginning())

    def cut_off(self, reason: str) -> AnswerError:
        """The error of a body that ends too early."""
        if self._whole is None:
            return self.streamed.cut_off(reason)
        return AnswerError(
            f"the answer of {self._server} broke off after {self.bytes} bytes: {reason}",
            kind=FailureKind.CUT_OFF,
            said=self._beginning(),
        )

    def _beginning(self) -> str:
        if self._whole is None:
            return self.streamed.beginning
        return b"".join(self._whole)[: 4 * SAID_CHARACTERS].decode("utf-8", "replace")

    def _is_events(self) -> bool:
        head = self._head.removeprefix(codecs.BOM_UTF8).lstrip()
        return head.startswith((b"data:", b"event:", b"id:", b"retry:", b":"))


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
