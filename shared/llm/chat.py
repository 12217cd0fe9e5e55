"""A chat request and its answer, as values."""

from dataclasses import dataclass, field, replace
from typing import Any

from shared.store.ledger import CallRequest
from shared.store.words import CallKind

Message = dict[str, Any]


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

    def following(self, *messages: Message) -> "ChatRequest":
        return replace(self, messages=(*self.messages, *messages))

    def without_tools(self, *messages: Message) -> "ChatRequest":
        return replace(self, messages=(*self.messages, *messages), tools=())

    @property
    def body(self) -> dict[str, Any]:
        """As chat completions take it."""
        body: dict[str, Any] = {"model": self.model, "messages": list(self.messages)}
        if self.tools:
            body["tools"] = list(self.tools)
        if self.response_format is not None:
            body["response_format"] = self.response_format
        return body

    def as_call(self) -> CallRequest:
        summary = {
            "messages": len(self.messages),
            "tools": [tool["function"]["name"] for tool in self.tools],
            "structured": self.response_format is not None,
        }
        return CallRequest(CallKind.LLM, self.body, summary, self.model)
