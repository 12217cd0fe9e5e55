"""A chat request and its answer in the words of OpenAI's Responses API."""

from collections.abc import Iterator, Mapping
from typing import Any

from openai.types.responses import Response, ResponseFunctionToolCall, ResponseOutputMessage

from shared.llm.chat import ChatAnswer, ChatRequest, Message, ToolCall, assistant_message

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
    if request.most_output_tokens is not None:
        body["max_output_tokens"] = request.most_output_tokens
    if request.response_format is not None:
        body["text"] = {"format": {"type": "json_schema", **request.response_format["json_schema"]}}
    return body


def answer_of(response: Response) -> ChatAnswer:
    """The answer of a response that is complete, or was cut short: then its finish reason says why."""
    calls = [
        ToolCall(item.call_id, item.name, item.arguments)
        for item in response.output
        if isinstance(item, ResponseFunctionToolCall)
    ]
    usage = response.usage
    return ChatAnswer(
        message=assistant_message(_text(response) or None, calls),
        finish_reason=_finish_reason(response, calls=bool(calls)),
        input_tokens=usage.input_tokens if usage else None,
        output_tokens=usage.output_tokens if usage else None,
    )


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


def _text(response: Response) -> str:
    """What it said; thoughts that it told on the way are no part of it where it marks its last words."""
    said = [item for item in response.output if isinstance(item, ResponseOutputMessage)]
    final = [item for item in said if item.phase == "final_answer"] or said
    return "".join(
        part.text for item in final for part in item.content if part.type == "output_text"
    )


def _finish_reason(response: Response, *, calls: bool) -> str:
    if response.status == "incomplete":
        details = response.incomplete_details
        reason = details.reason if details else None
        return _FINISH_REASONS.get(reason or "", reason or "length")
    return "tool_calls" if calls else "stop"
