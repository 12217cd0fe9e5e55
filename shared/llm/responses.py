"""A chat request and its answer in the words of OpenAI's Responses API."""

from collections.abc import Iterator, Mapping
from typing import Any

from shared.llm.answers import (
    AnswerError,
    Said,
    UnreadableError,
    arguments_of,
    text_of,
    usage_of,
)
from shared.llm.chat import ChatAnswer, ChatRequest, Message, ToolCall
from shared.tools.schemas import without_max_items

Json = dict[str, Any]

_FINISH_REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}


def body_of(request: ChatRequest) -> Json:
    """`request` as it is sent."""
    body: Json = {
        "model": request.model,
        "input": [item for message in request.messages for item in _items(message)],
    }
    if request.tools:
        body["tools"] = [_tool(tool["function"]) for tool in request.tools]
        if request.tool_choice is not None:
            body["tool_choice"] = request.tool_choice
    if request.most_output_tokens is not None:
        body["max_output_tokens"] = request.most_output_tokens
    if request.response_format is not None:
        given = without_max_items(request.response_format["json_schema"])
        body["text"] = {"format": {"type": "json_schema", **given}}
    return body


def answer_of(server: str, response: Json) -> ChatAnswer:
    """The answer of a response that is complete, or was cut short: then its finish reason says why.

    Raises AnswerError where it cannot be used.
    """
    usage = usage_of(response.get("usage"), "input_tokens", "output_tokens")
    said = Said(usage=usage)
    try:
        output = _objects(response.get("output"))
        said.text, said.refusal = _text(output)
        said.calls = [_call(item) for item in output if item.get("type") == "function_call"]
    except UnreadableError as error:
        raise AnswerError(
            f"{server} sent a response that cannot be read, {error}",
            said=repr(response),
            usage=usage,
        ) from None
    said.finish_reason = _finish_reason(response, calls=bool(said.calls))
    return said.answer(server, said.refusal or said.text or repr(response))


def _items(message: Message) -> Iterator[Json]:
    """Ids of items are left out: by them OpenAI would look for the reasoning that stood beside them."""
    if message["role"] == "tool":
        yield {
            "type": "function_call_output",
            "call_id": message["tool_call_id"],
            "output": message["content"],
        }
        return
    calls = message.get("tool_calls") or []
    if message["content"] or not calls:
        yield {"type": "message", "role": message["role"], "content": message["content"] or ""}
    for call in calls:
        yield {"type": "function_call", "call_id": call["id"], **call["function"]}


def _tool(function: Mapping[str, Any]) -> Json:
    # Strict unless it says otherwise, and then no argument may be left out.
    return {"type": "function", "strict": False, **function}


def _objects(given: Any) -> list[Json]:
    if not isinstance(given, list):
        raise UnreadableError("its output is no list")
    return [item for item in given if isinstance(item, dict)]


def _call(item: Json) -> ToolCall:
    name, call_id = item.get("name"), item.get("call_id")
    if not isinstance(name, str):
        raise UnreadableError("a function call has no name")
    return ToolCall(call_id if isinstance(call_id, str) else "", name, arguments_of(item) or "{}")


def _text(output: list[Json]) -> tuple[str, str]:
    """What it said, and what it refused. Thoughts told on the way are no part of it where it marks its last words."""
    said = [item for item in output if item.get("type") == "message"]
    final = [item for item in said if item.get("phase") == "final_answer"] or said
    parts = [text_of(item.get("content")) for item in final]
    return "".join(text for text, _ in parts), "".join(refusal for _, refusal in parts)


def _finish_reason(response: Json, *, calls: bool) -> str:
    if response.get("status") == "incomplete":
        details = response.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, dict) else None
        told = reason if isinstance(reason, str) else "length"
        return _FINISH_REASONS.get(told, told)
    return "tool_calls" if calls else "stop"
