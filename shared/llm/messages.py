"""Chat requests, answers and their sections, as values."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

from shared.billing.call_ledger import CallRequest
from shared.database.text import storable
from shared.enums import CallKind

Message = dict[str, Any]

_ESCAPED_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


@dataclass(frozen=True)
class ToolCall:
    id: str
    name: str
    arguments: str
    """JSON as the model wrote it, which may be wrong."""


@dataclass(frozen=True)
class ChatAnswer:
    message: Message
    """The assistant's message in the shape in which it is sent back."""
    finish_reason: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    usage_fault: str | None = None
    """Why the server's own count of tokens is not usable, where it is not: then the call is booked at its bound."""

    @property
    def text(self) -> str:
        return self.message.get("content") or ""

    @property
    def tool_calls(self) -> list[ToolCall]:
        return [
            ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
            for call in self.message.get("tool_calls") or []
        ]


@dataclass(frozen=True)
class ChatRequest:
    """Everything that decides the answer: asked twice, it is the same call."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...] = field(default=())
    response_format: dict[str, Any] | None = None
    most_output_tokens: int | None = None
    """Sent with it, and no part of what it asks: a call is the same where this was changed since."""
    asks_again: bool = False
    """Whether it asks for the correction of an answer that did not fit. Kept for people, and no part of what it asks."""
    tool_choice: str | None = None
    """`required` where the model must call a tool. It is part of this one request, and of none that follows it."""

    def following(self, *messages: Message) -> "ChatRequest":
        return replace(
            self, messages=(*self.messages, *messages), asks_again=False, tool_choice=None
        )

    def without_tools(self, *messages: Message) -> "ChatRequest":
        return replace(self.following(*messages), tools=())

    @property
    def body(self) -> dict[str, Any]:
        """As chat completions take it, but for the limit of its answer."""
        body: dict[str, Any] = {"model": self.model, "messages": list(self.messages)}
        if self.tools:
            body["tools"] = list(self.tools)
            if self.tool_choice is not None:
                body["tool_choice"] = self.tool_choice
        if self.response_format is not None:
            body["response_format"] = self.response_format
        return body

    @property
    def sent_body(self) -> dict[str, Any]:
        """What is sent to chat completions."""
        if self.most_output_tokens is None:
            return self.body
        return {**self.body, "max_completion_tokens": self.most_output_tokens}

    def as_call(self) -> CallRequest:
        return self._call

    @cached_property
    def _call(self) -> CallRequest:
        summary: dict[str, Any] = {
            "messages": len(self.messages),
            "tools": [tool["function"]["name"] for tool in self.tools],
            "structured": self.response_format is not None,
        }
        if self.response_format is not None:
            summary["schema"] = self.response_format["json_schema"]["name"]
        if self.asks_again:
            summary["asks_again"] = True
        return CallRequest(CallKind.LLM, self.body, summary, self.model)


def assistant_message(content: str | None, calls: Sequence[ToolCall]) -> Message:
    """What the model said, in the shape in which it is sent back."""
    said: Message = {"role": "assistant", "content": _clean(content)}
    if calls:
        said["tool_calls"] = [
            {
                # Some servers leave ids out or use one twice; the loop needs one for each call.
                "id": f"{call.id}_{index}",
                "type": "function",
                "function": {"name": _clean(call.name), "arguments": _clean(call.arguments)},
            }
            for index, call in enumerate(calls)
        ]
    return said


def _clean(text: str | None) -> str | None:
    """`text` without what could not be stored, neither as it stands nor read as JSON: it was paid for."""
    if text is None:
        return None
    kept: str = storable(_ESCAPED_NUL.sub(r"\1", text))
    return kept


# What shows nowhere and may stand between the signs of a tag: blanks, soft hyphens, characters of no width, bidi marks.
_UNSEEN = r"[\s\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]*"


def section(tag: str, text: str) -> str:
    """`text` between `<tag>` lines; what would open or close the tag inside, however it is spelt, is defused."""
    return f"<{tag}>\n{_tags(tag).sub(_defused, text)}\n</{tag}>"


def inside(tag: str, message: str) -> str:
    """What stands in the section `tag` of a message; nothing where there is none."""
    found = re.search(rf"^<{re.escape(tag)}>\n(.*?)\n</{re.escape(tag)}>$", message, re.S | re.M)
    return "" if found is None else found[1]


def _defused(tag: re.Match[str]) -> str:
    return f"<\\{tag[0][1:]}"


@lru_cache(maxsize=64)
def _tags(tag: str) -> re.Pattern[str]:
    spelt = _UNSEEN.join(re.escape(sign) for sign in tag)
    return re.compile(
        rf"[<\uff1c\u2039]{_UNSEEN}[/\uff0f]?{_UNSEEN}{spelt}(?![\w-])", re.IGNORECASE
    )
