"""The conversation over two turns of tools that shows whether Vigil copes with a model server."""

import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Final

from shared.billing.resumable_call import ResumableCall
from shared.llm.messages import ORIGIN, ChatAnswer, ChatRequest, Message, messages_for
from shared.llm.provider import Provider
from shared.llm.tool_calls import normalize_tool_calls

MAX_ROUNDS: Final = 6
TOOL: Final[Mapping[str, Any]] = {
    "type": "function",
    "function": {
        "name": "readNote",
        "description": "Reads one of the numbered notes.",
        "parameters": {
            "type": "object",
            "properties": {"number": {"type": "string", "description": "The number of the note."}},
            "required": ["number"],
            "additionalProperties": False,
        },
    },
}
NOTES: Final = ("The word is in note 2: read it next.", "The word is kestrel.")
WORD: Final = "kestrel"
TASK: Final = (
    "Find a word. Call the tool readNote with the number 1, and then for the note that it names. Call it once at a time."
    " Then answer with the word."
)
_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "json_schema",
    "json_schema": {
        "name": "word",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"word": {"type": "string"}},
            "required": ["word"],
            "additionalProperties": False,
        },
    },
}
REQUESTS: Final[Mapping[str, str]] = {
    "tools": "Two turns of tools",
    "forced": "Two turns of tools, the first demanded with `tool_choice`",
    "structured": "A structured answer",
    "text": "Text",
}
"""The kinds of requests."""


@dataclass
class Conversation:
    """Messages of the client and the model."""

    answers: list[ChatAnswer] = field(default_factory=list)
    calls: int = 0
    text: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether the model used the tool in two turns, or needed none, and found the word."""
        return WORD in self.text.lower()


def request_of(kind: str, model: str, options: Mapping[str, str] | None = None) -> ChatRequest:
    """The first request of a conversation."""
    has_tools = kind in ("tools", "forced")
    task = TASK if has_tools else f"Answer with the word {WORD}."
    return ChatRequest(
        model,
        ({"role": "system", "content": "You are careful."}, {"role": "user", "content": task}),
        (dict(TOOL),) if has_tools else (),
        dict(_SCHEMA) if kind == "structured" else None,
        2000,
        options=options or {},
        tool_choice="required" if kind == "forced" else None,
    )


async def converse(
    provider: Provider, request: ChatRequest, in_flight: ResumableCall
) -> Conversation:
    """Runs the conversation as the tool loop does. Raises what the provider raises."""
    conversation = Conversation()
    for _ in range(MAX_ROUNDS):
        messages = messages_for(request.messages, request.model)
        raw_answer = await provider.complete(replace(request, messages=messages), in_flight)
        tools = [tool["function"]["name"] for tool in request.tools]
        answer = normalize_tool_calls(raw_answer, tools, request.messages)
        conversation.answers.append(answer)
        if not answer.tool_calls:
            conversation.text = answer.text
            break
        message = {**answer.message, ORIGIN: request.model}
        replies = [_reply(answer, index) for index in range(len(answer.tool_calls))]
        conversation.calls += len(replies)
        request = request.following(message, *replies)
    return conversation


def _reply(answer: ChatAnswer, index: int) -> Message:
    call = answer.tool_calls[index]
    number = str(json.loads(call.arguments).get("number"))
    known = call.name == TOOL["function"]["name"] and number in ("1", "2")
    result = {"note": NOTES[int(number) - 1]} if known else {"error": "there is no such note"}
    return {"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)}


async def _not_recorded(reference: str) -> None:
    """A conversation outside of a step has no ledger."""


def unrecorded_call() -> ResumableCall:
    """A call that is not in the ledger."""
    return ResumableCall("conversation", None, _not_recorded, nullcontext)
