"""Parses chat completions of all servers, whole or streamed.

Servers differ from OpenAI in details: arguments as an object, content in parts, no ids, no usage. Such an answer is
accepted. Any other raises AnswerError with the beginning of the answer and, if known, its token usage.
"""

import codecs
import re
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Final

from shared.database.text import storable
from shared.llm.answer_errors import (
    EXCERPT_CHARS,
    UNKNOWN_USAGE,
    AnswerError,
    FailureKind,
    MalformedAnswerError,
    Usage,
    excerpt_of,
    failed_generation,
    is_filter_error,
    is_unavailable,
    parse_body,
)
from shared.llm.messages import (
    CONTENT_PARTS,
    THOUGHTS,
    ChatAnswer,
    ToolCall,
    assistant_message,
)
from shared.llm.repair import dump_json
from shared.llm.usage import NO_USAGE, is_count, parse_usage, raw_usage
from shared.server_json import as_text, kind_of, read_json, words_of

MAX_ANSWER_CHARS: Final = 4_000_000
"""Of text and tool arguments together. Far more than any output token limit allows."""
MAX_PARSED_CALLS: Final = 1000
"""Tool calls of one answer that are parsed. The tool loop has its own limit of calls to run."""

_REPEATED_CHARS: Final = 2_000
"""An answer that repeats a piece for so long does nothing else any more."""
_MAX_PERIOD: Final = 5_000
_REPETITIONS: Final = 3
_PROBE_CHARS: Final = 64
_END: Final = "[DONE]"
_EVENT_FIELDS: Final = (b"data:", b"event:", b"id:", b"retry:", b"error:", b":")
_ENOUGH_BYTES: Final = 8
"""First bytes of a body that are enough to recognize a stream of events."""
_THOUGHT_KEYS: Final = frozenset({"reasoning_content", "reasoning", "thinking"})
_MESSAGE_KEYS: Final = frozenset({"message", "delta", "text"})
_ANSWER_KEYS: Final = frozenset(
    {"content", "tool_calls", "function_call", "refusal", "reasoning_content", "reasoning"}
)
_PARSED_KEYS: Final = frozenset(
    {"role", "content", "tool_calls", "function_call", "refusal", "usage"}
)
"""Fields of a message that are parsed. The others are kept as they are, if the message has tool calls."""
_PARSED_CALL_KEYS: Final = frozenset({"id", "index", "type", "function"})
_PARSED_FUNCTION_KEYS: Final = frozenset({"name", "arguments", "parameters"})
_WHOLE_KEYS: Final = frozenset({"type", "format", "id", "name", "role", "index"})
"""Texts that a chunk sends whole. Others are continued from chunk to chunk."""

_SUCCESS: Final = frozenset(
    {
        "stop", "stopped", "stop_sequence", "stop_str", "stop_token", "end", "ended", "end_turn", "end_of_turn", "eot",
        "eot_id", "eos", "eos_token", "end_of_text", "endoftext", "im_end", "complete", "completed", "done", "finish",
        "finished", "normal", "success", "tool_call", "tool_calls", "tool_use", "function_call", "function_calls",
    }
)  # fmt: skip
"""Finish reasons of complete answers, of all providers. Any other reason is one of an answer that broke off."""
_LIMIT: Final = frozenset(
    {"length", "max_tokens", "max_output_tokens", "max_completion_tokens", "max_length", "token_limit"}
)  # fmt: skip
_FILTERED: Final = re.compile(
    r"filter|sensitiv|safety|recitation|refus|prohibit|blocklist|spii|guardrail|moderat|policy|armor"
)
"""In the finish reason of an answer that a filter withheld."""
LIMIT_REASON: Final = "length"
"""The finish reason of every answer that reached its token limit, whatever the server calls it."""


@dataclass
class AnswerParts:
    """The content of an answer, complete or so far, independent of the server's format."""

    texts: list[str] = field(default_factory=list)
    refusal: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    finish_reason: str | None = None
    usage: Usage = NO_USAGE
    more: dict[str, Any] = field(default_factory=dict)
    """Further fields of the message, such as reasoning, but for texts."""
    more_texts: dict[str, list[str]] = field(default_factory=dict)
    """Further fields that are texts, in pieces."""

    @property
    def text(self) -> str:
        self.texts = ["".join(self.texts)]
        return self.texts[0]

    def add_message(self, message: dict[str, Any]) -> int:
        """Adds the text and the refusal of a message or a delta. Returns the length of the text.

        The content is a string, a list of parts, or the requested JSON itself. Raises MalformedAnswerError.
        """
        earlier = len(self.texts)
        match message.get("content"):
            case str() as text:  # many times as fast as `str(text)`
                self.texts.append(text)
            case None:
                pass
            case list() as parts:
                for part in parts:
                    self._add_part(part)
                kinds = [part.get("type", "text") for part in parts if isinstance(part, dict)]
                if any(kind not in ("text", "output_text") for kind in kinds):
                    self.more = merged(self.more, {CONTENT_PARTS: parts})
            case {"type": _} | {"text": _} as part:
                self._add_part(part)
            case requested_json:
                self.texts.append(_as_json(requested_json))
        if isinstance(refusal := message.get("refusal"), str):
            self.refusal += refusal
        if not message.keys() <= _PARSED_KEYS:
            for name in message.keys() - _PARSED_KEYS:
                if isinstance(value := message[name], str):
                    self.more_texts.setdefault(name, []).append(value)
                else:
                    self.more = merged(self.more, {name: value})
        return sum(map(len, self.texts[earlier:]))

    def _add_part(self, part: Any) -> None:
        """Adds one part of a message's content. Ignores reasoning and images."""
        match part:
            case {"refusal": str(refusal)}:
                self.refusal += refusal
            case {"type": kind} if kind not in ("text", "output_text"):
                pass
            case str(text) | {"text": str(text) | {"value": str(text)}}:
                self.texts.append(text)

    def answer(self, server: str, raw_answer: str) -> ChatAnswer:
        """Returns the answer. Raises AnswerError if it is a refusal, broken off, too large or empty.

        `raw_answer` is what the error shows.
        """
        text, reason = self.text, self.finish_reason
        more = self.more | {name: "".join(pieces) for name, pieces in self.more_texts.items()}
        is_empty = not text and not self.calls
        is_filtered = _FILTERED.search(reason or "") is not None
        is_broken = reason not in (None, LIMIT_REASON, *_SUCCESS)
        arguments = [call.arguments for call in self.calls]
        length = len(text) + sum(map(len, arguments)) + (len(as_text(more)) if more else 0)
        fault: str | None = None
        if self.refusal and is_empty:
            fault = f"the model refused: {excerpt_of(self.refusal)}"
        elif is_empty and self.usage.output_tokens == 0 and not self.usage.is_missing and not more:
            fault = "the answer is empty, and none of it was generated"
        elif is_filtered:
            words = excerpt_of(text or reason)
            fault = f"the server's content filter withheld the answer: {words}"
        elif reason == "error":
            fault = f"the server cancelled the answer: {excerpt_of(text)}"
        elif is_broken:
            fault = f"the answer broke off ({reason}): {excerpt_of(text)}"
        elif len(self.calls) > MAX_PARSED_CALLS:
            fault = f"the answer has {len(self.calls)} tool calls, more than {MAX_PARSED_CALLS}"
        elif not all(call.name for call in self.calls):
            fault = "a tool call of the answer names no tool"
        elif length > MAX_ANSWER_CHARS:
            fault = f"the answer has {length} characters, more than {MAX_ANSWER_CHARS}"
        elif reason == LIMIT_REASON and is_empty:
            fault = "the model used up its output tokens before it answered; raise VIGIL_MAX_OUTPUT_TOKENS"
        elif reason == LIMIT_REASON:
            repeated = _repeated_text(arguments[-1] if arguments else text)
            if repeated is not None:
                fault = f"the model repeated itself until it reached its token limit: {excerpt_of(repeated)}"
        if fault is not None:
            is_answer = is_broken and not is_filtered
            raise AnswerError(
                f"{server}: {fault}",
                kind=FailureKind.UNUSABLE if is_answer else FailureKind.NO_ANSWER,
                excerpt=raw_answer,
                usage=self.usage,
                is_filtered=is_filtered,
            )
        said = text if self.calls else THOUGHTS.sub("", text)
        thoughts = "" if said or self.calls else "\n".join([text, *map(str, more.values())]).strip()
        return ChatAnswer(
            message=assistant_message(said or None, self.calls, more),
            thoughts=thoughts[-EXCERPT_CHARS:],
            finish_reason=reason or ("tool_calls" if self.calls else "stop"),
            input_tokens=self.usage.input_tokens,
            output_tokens=self.usage.output_tokens,
            cached_tokens=self.usage.cached_tokens,
            reasoning_tokens=self.usage.reasoning_tokens,
            service_tier=self.usage.service_tier,
            usage_fault=self.usage.fault,
            lacks_usage=self.usage.is_missing,
            read_tokens=self.usage.read_tokens,
        )


@dataclass
class _EventLines:
    """Decodes server-sent events: takes bytes and yields the data of complete events."""

    _line: list[bytes] = field(default_factory=list)
    _data: list[bytes] = field(default_factory=list)
    _ended_with_return: bool = False

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
                elif name == b"error" and value.lstrip().startswith(b"{"):
                    # Not in the standard: llama.cpp ends a stream so.
                    self._data.append(b'{"error": %b}' % value.strip())
            elif self._data:
                yield b"\n".join(self._data).decode("utf-8", "replace")
                self._data = []


@dataclass
class _Call:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    sent: dict[str, Any] = field(default_factory=dict)

    @property
    def newest(self) -> str:
        """The end of the arguments."""
        pieces: list[str] = []
        missing = _REPETITIONS * _MAX_PERIOD
        for piece in reversed(self.arguments):
            pieces.append(piece)
            missing -= len(piece)
            if missing <= 0:
                break
        return "".join(reversed(pieces))


class Received:
    """Assembles an answer from a response body, which can be a stream of events or one object, regardless of the request.

    It does not use the SDK, whose types fail on small differences between servers.
    """

    def __init__(self, server: str, *, has_priced_tiers: bool = False) -> None:
        """With `has_priced_tiers`, the service tier is read. Other servers use that field for tiers that cost the same."""
        self._server = server
        self._has_priced_tiers = has_priced_tiers
        self._is_stream: bool | None = None
        """None until enough of the body is there to recognize a stream of events."""
        self._body: list[bytes] = []
        """The body so far, unless it is a stream."""
        self._lines = _EventLines()
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
        self._checked_characters = 0
        self._service_tier: Any = None
        self._block_reason: str | None = None
        self._thoughts = ""
        """The end of the reasoning, which is not kept."""

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
            body = b"".join(self._body).decode("utf-8", "replace")
            return _parse_completion(self._server, body, has_priced_tiers=self._has_priced_tiers)
        for data in self._lines.feed(b"", is_last=True):
            try:
                read_json(data)
            except ValueError:
                if data.strip() != _END:
                    raise self._cut_off("its last event is incomplete") from None
            self._take_event(data)
        parts = self._parts
        if not self._has_choice and not self._block_reason:
            raise AnswerError(
                f"{self._server} streamed an answer without choices: {self._beginning_chunks.strip()!r}",
                excerpt=self._beginning_chunks,
                usage=parts.usage,
            )
        parts.finish_reason = self._block_reason or parts.finish_reason
        parts.calls = [
            ToolCall(call.id, call.name, "".join(call.arguments), call.sent) for call in self._calls
        ]
        if parts.finish_reason is None:
            raise self._cut_off("the stream ended without a finish reason", has_no_end=self.is_done)
        return parts.answer(self._server, parts.refusal or parts.text or self._beginning_chunks)

    def progress(self) -> str:
        """Describes what was received so far."""
        return f"{self.bytes} bytes, {self.characters} characters of an answer"

    def explained(self, error: AnswerError) -> AnswerError:
        """`error` with what was received so far."""
        if error.excerpt:
            return error
        if error.kind is FailureKind.CUT_OFF and error.counts:
            return self._cut_off(str(error))
        explained = copy(error)
        explained.excerpt = storable(self._beginning[:EXCERPT_CHARS])
        return explained

    @property
    def _beginning(self) -> str:
        """The text so far or, if there is none, the beginning of the body."""
        if not self._is_stream:
            return b"".join(self._body)[: 4 * EXCERPT_CHARS].decode("utf-8", "replace")
        return self.text or self._beginning_chunks

    @property
    def _final_usage(self) -> Usage:
        """The usage, if the answer is complete. Before that, some servers send that of the answer so far, but they may
        generate more, and bill it.
        """
        return UNKNOWN_USAGE if self._parts.finish_reason is None else self._parts.usage

    def _cut_off(self, reason: str, *, has_no_end: bool = False) -> AnswerError:
        """Returns the error for a body that ended too early."""
        amount = f"{self.characters} characters" if self._is_stream else f"{self.bytes} bytes"
        return AnswerError(
            f"the answer from {self._server} broke off after {amount}: {reason}",
            kind=FailureKind.CUT_OFF,
            excerpt=self._beginning,
            usage=self._final_usage,
            has_no_end=has_no_end,
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
            _raise_error_in(self._server, chunk, self._parts.usage, has_begun=self.characters > 0)
            return self._take_chunk(chunk)
        except ValueError as error:
            raise AnswerError(
                f"{self._server} streamed data that is not a chunk of a chat completion ({error}): "
                f"{data[:EXCERPT_CHARS]}",
                excerpt=data,
                usage=self._final_usage,
            ) from None

    def _take_chunk(self, chunk: Any) -> bool:
        choice = _first_choice(chunk)
        if self._has_priced_tiers:
            self._service_tier = chunk.get("service_tier") or self._service_tier
        if raw_usage(chunk) is not None:
            self._parts.usage = parse_usage({**chunk, "service_tier": self._service_tier})
        if not chunk.keys().isdisjoint(_FEEDBACK):
            self._block_reason = _block_reason(chunk) or self._block_reason
        if choice is None:
            return False
        self._has_choice = True
        self._parts.finish_reason = _choice_finish_reason(choice) or self._parts.finish_reason
        delta = choice.get("delta", choice.get("message"))
        if delta == {} or (delta is None and choice.get("text") is None):
            return False
        if delta is None:
            delta = _choice_message(choice)
        if not isinstance(delta, dict):
            raise MalformedAnswerError("its delta is not an object")
        for call in _message_calls(delta):
            self._take_call(call)
        text_characters = self._parts.add_message(delta)
        self.characters += text_characters
        for key in _THOUGHT_KEYS & delta.keys():
            if isinstance(thought := delta[key], str):
                self.characters += len(thought)
                self._thoughts = (self._thoughts + thought)[-_REPETITIONS * _MAX_PERIOD :]
        if self.characters - self._checked_characters >= _REPEATED_CHARS:
            self._checked_characters = self.characters
            newest = self._calls[-1].newest if self._calls else self.text or self._thoughts
            if (repeated := _repeated_text(newest)) is not None:
                # Weak models do so until their token limit, for minutes.
                raise AnswerError(
                    f"{self._server}: the model repeated itself, so its answer was stopped after"
                    f" {self.characters} characters: {excerpt_of(repeated)}",
                    kind=FailureKind.NO_ANSWER,
                    excerpt=newest,
                )
        return text_characters > 0

    def _take_call(self, chunk: dict[str, Any]) -> None:
        has_function = chunk.get("function") or "name" in chunk
        piece = read_call(chunk if has_function else {**chunk, "function": {}})
        index = chunk.get("index")
        if isinstance(index, str) and index.isdecimal() and len(index) < len("1000000"):
            index = int(index)
        index = index if isinstance(index, int) else None
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
        call.sent = merged(call.sent, piece.sent)
        self.characters += len(piece.arguments)


def _parse_completion(server: str, body: str, *, has_priced_tiers: bool) -> ChatAnswer:
    """Parses the answer in a complete response body. Raises AnswerError."""
    completion = parse_body(server, body)
    usage = parse_usage(completion)
    _raise_error_in(server, completion, usage)
    if not has_priced_tiers:
        usage = replace(usage, service_tier=None)
    try:
        choice, reason = _first_choice(completion), _block_reason(completion)
        if choice is None and reason is None:
            raise MalformedAnswerError("it has no choices")
        reason = reason or _choice_finish_reason(choice or {})
        if choice is None or _FILTERED.search(reason or ""):
            # Some servers leave out the content, or the message.
            message = (choice or {}).get("message") or {}
        else:
            message = _choice_message(choice)
        calls = [read_call(call) for call in _message_calls(message)]
        parts = AnswerParts(calls=calls, finish_reason=reason, usage=usage)
        parts.add_message(message)
    except MalformedAnswerError as error:
        raise AnswerError(
            f"{server} sent an answer that is not a chat completion ({error}): {excerpt_of(body)}",
            excerpt=body,
            usage=usage,
        ) from None
    return parts.answer(server, body)


def _first_choice(completion: Any) -> dict[str, Any] | None:
    """Returns the first choice; None if there is none. Raises MalformedAnswerError."""
    if not isinstance(completion, dict):
        raise MalformedAnswerError(f"it is {kind_of(completion)}, not an object")
    choices = completion.get("choices")
    if isinstance(choices, dict):
        choices = [choices] if _MESSAGE_KEYS & choices.keys() else list(choices.values())
    if choices is None or choices == []:
        return None
    if not isinstance(choices, list) or not isinstance(choices[0], dict):
        raise MalformedAnswerError(f"its choices are {kind_of(choices)}")
    return choices[0]


_FEEDBACK: Final = ("promptFeedback", "prompt_feedback")


def _block_reason(body: dict[str, Any]) -> str | None:
    """The finish reason of a request that Gemini blocks. The response has no choice then."""
    feedback = next((body[name] for name in _FEEDBACK if body.get(name)), None)
    reason = feedback if isinstance(feedback, dict) else {}
    words = reason.get("blockReason") or reason.get("block_reason")
    return f"content_filter: {words}" if words and isinstance(words, str) else None


def _choice_message(choice: dict[str, Any]) -> dict[str, Any]:
    """Returns the message of a choice. Raises MalformedAnswerError if it has none with content."""
    message = choice.get("message", choice.get("delta"))
    if message is None and isinstance(choice.get("text"), str):
        return {"content": choice["text"]}
    if not isinstance(message, dict):
        raise MalformedAnswerError(f"its message is {kind_of(message)}")
    if not _ANSWER_KEYS & message.keys():
        raise MalformedAnswerError("its message has neither content nor tool calls")
    return message


def _choice_finish_reason(choice: dict[str, Any]) -> str | None:
    """The finish reason in lower case, LIMIT_REASON for all those of the token limit; that of the gateway's provider if it
    says that the answer is not complete.
    """
    reasons: list[str | None] = []
    for name in ("native_finish_reason", "finish_reason"):
        value = choice.get(name)
        if isinstance(value, dict):
            value = value.get("type") or value.get("reason")
        value = value if isinstance(value, str) else ""
        reason = value.lower().strip("<|> ").replace("-", "_").removeprefix("finish_reason_")
        reasons.append(LIMIT_REASON if reason in _LIMIT else reason or None)
    incomplete = (reason for reason in reasons if reason is not None and reason not in _SUCCESS)
    return next(incomplete, None) or reasons[1] or reasons[0]


def _message_calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the tool calls, or the call in the older `function_call`. Raises MalformedAnswerError."""
    calls = message.get("tool_calls")
    if isinstance(calls, dict):
        calls = [calls]
    if not calls and message.get("function_call"):
        calls = [{"function": message["function_call"]}]
    if calls is None or calls == "":
        return []
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise MalformedAnswerError(f"its tool calls are {kind_of(calls)}")
    return calls


def read_call(call: dict[str, Any]) -> ToolCall:
    """Returns a tool call, or a chunk of one, with empty texts for what it lacks. Raises MalformedAnswerError.

    Some servers put the function directly into the call, or send arguments that are no JSON text.
    """
    function = call.get("function", call if "name" in call else None)
    if not isinstance(function, dict):
        raise MalformedAnswerError(f"the function of a tool call is {kind_of(function)}")
    name = function.get("name")
    if name is not None and not isinstance(name, str):
        raise MalformedAnswerError(f"the name of a tool call is {kind_of(name)}")
    arguments = function.get("arguments", function.get("parameters"))
    if arguments is not None and not isinstance(arguments, str):
        arguments = _as_json(arguments)
    call_id = call.get("id")
    call_id = str(call_id) if isinstance(call_id, str | int) else ""
    sent = {name: value for name, value in call.items() if name not in _PARSED_CALL_KEYS}
    of_function = {
        name: value for name, value in function.items() if name not in _PARSED_FUNCTION_KEYS
    }
    if call is function:
        sent = {name: value for name, value in of_function.items() if name in sent}
    elif of_function:
        sent["function"] = of_function
    return ToolCall(call_id, name or "", arguments or "", sent)


def merged(earlier: Any, later: Any, *, is_nested: bool = False) -> Any:
    """Joins two values of a field that chunks of a stream send in pieces: texts, objects and lists of objects.

    A nested text that is sent again, as it was or with its beginning, is not doubled.
    """
    match earlier, later:
        case (None, _) | (_, None):
            return later if earlier is None else earlier
        case str(), str():
            is_again = is_nested and earlier and later.startswith(earlier)
            return later if is_again else earlier + later
        case dict(), dict():
            joined = dict(earlier)
            for name, value in later.items():
                if name in _WHOLE_KEYS and value not in (None, ""):
                    joined[name] = value
                else:
                    is_text = name in ("text", "summary", "thinking") or name in _THOUGHT_KEYS
                    joined[name] = merged(joined.get(name), value, is_nested=not is_text)
            return joined
        case list(), list():
            items = list(earlier)
            for item in later:
                _merge_item(items, item)
            return items
        case _:
            return later


def _merge_item(items: list[Any], item: Any) -> None:
    """Adds an item of a list that is sent in pieces: pieces of one item have the same index, and the same type."""
    for position in reversed(range(len(items))):
        known = items[position]
        if not isinstance(known, dict) or not isinstance(item, dict):
            break
        is_piece = "index" in item or position == len(items) - 1
        same = all(
            known.get(name) == item.get(name) or (name != "index" and None in (known.get(name), item.get(name)))
            for name in ("index", "type", "id")
        )  # fmt: skip
        if is_piece and same:
            items[position] = merged(known, item)
            return
    items.append(item)


def _raise_error_in(
    server: str, body: Any, usage: Usage = UNKNOWN_USAGE, *, has_begun: bool = False
) -> None:
    """Raises AnswerError if a response with status 200 contains an error, also beside a part of an answer."""
    if isinstance(body, list) and len(body) == 1:
        [body] = body
    if not isinstance(body, dict):
        return
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else {}
    choice = choice if isinstance(choice, dict) else {}
    error = body.get("error") or choice.get("error") or _failed_status(body)
    if not error and not choices:
        error = (body if body.get("object") == "error" else None) or body.get("detail")
    if not error or (isinstance(error, dict) and not any(error.values())):
        return
    message = choice.get("message") or choice.get("delta")
    has_content = isinstance(message, dict) and bool(
        message.get("content") or message.get("tool_calls")
    )
    has_begun = has_content or (has_begun and bool(choice))
    code = error.get("code") or error.get("type") if isinstance(error, dict) else None
    raise AnswerError(
        f"{server} returned status 200 with an error: {excerpt_of(words_of(error))}",
        excerpt=excerpt_of(body),
        usage=parse_usage(body) if raw_usage(body) else usage,
        counts=has_begun or not is_unavailable(code),
        is_error_body=not has_begun,
        is_filtered=is_filter_error(body, error),
        generation=failed_generation(error),
    )


_FAILED: Final = frozenset({"incomplete", "failed", "cancelled", "canceled", "error"})
"""Statuses beside an answer that is not complete."""


def _failed_status(body: dict[str, Any]) -> dict[str, Any] | None:
    """The status of a response that says beside the answer that it failed, as MiniMax does; None if it succeeded."""
    for status in (body, *(body.get(name) for name in ("base_resp", "status", "result"))):
        if isinstance(status, dict):
            words = status.get("status")
            if isinstance(words, str) and words.lower() in _FAILED:
                return {"message": words_of(status.get("incomplete_details")) or words}
            codes = (
                status.get(name) for name in ("status_code", "error_code", "err_code", "errcode")
            )
            if any(is_count(code) and code not in (0, 200) for code in map(_as_number, codes)):
                return {**status, "message": words_of(status.get("status_msg") or status)}
    return None


def _as_number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 10 else value


def _repeated_text(text: str) -> str | None:
    """Returns the piece that `text` repeats at its end, character by character; None if it does not repeat one.

    Lists of one form repeat none, for their names and figures differ.
    """
    text = text[-_REPETITIONS * _MAX_PERIOD :]
    earlier = text.rfind(text[-_PROBE_CHARS:], 0, -1)
    period = len(text) - _PROBE_CHARS - earlier
    needed = max(_REPEATED_CHARS, _REPETITIONS * period)
    tail = text[-needed:]
    is_repeated = earlier >= 0 and len(tail) == needed and tail[period:] == tail[:-period]
    return tail[-period:] if is_repeated else None


def _as_json(value: Any) -> str:
    try:
        return dump_json(value)
    except RecursionError:
        raise MalformedAnswerError("it is nested too deeply") from None
