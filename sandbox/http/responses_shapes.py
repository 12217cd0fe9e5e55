"""OpenAI's Responses API in the shapes of chat completions, which the reader reads, and back."""

from collections.abc import Mapping
from typing import Any

from sandbox.http.openai_shapes import CREATED, tool_calls
from sandbox.reader.answer import Answer

ITEM_HASH_CHARS = 24


def as_chat(body: Mapping[str, Any]) -> dict[str, Any]:
    """The same request for chat completions. Items of other kinds than Vigil sends are passed over."""
    chat: dict[str, Any] = {"model": body.get("model"), "messages": _messages(body)}
    tools = [_tool(tool) for tool in body.get("tools") or []]
    if tools:
        chat["tools"] = tools
    if "max_output_tokens" in body:
        chat["max_completion_tokens"] = body["max_output_tokens"]
    wanted = (body.get("text") or {}).get("format") or {}
    if wanted.get("type") == "json_schema":
        schema = {key: value for key, value in wanted.items() if key != "type"}
        chat["response_format"] = {"type": "json_schema", "json_schema": schema}
    return chat


def response(response_id: str, model: str, status: str, **told: Any) -> dict[str, Any]:
    """A response as it stands; `told` is what it has by now."""
    return {
        "id": response_id,
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "background": True,
        "store": True,
        "model": model,
        "output": [],
        "usage": None,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        **told,
    }


def output(request_hash: str, answer: Answer) -> list[dict[str, Any]]:
    """The items of an answer: its text, then its calls."""
    done = {"status": "completed"}
    text = {"type": "output_text", "text": answer.text, "annotations": []}
    message = {"type": "message", "role": "assistant", "content": [text], **done}
    message["id"] = f"msg_{request_hash[:ITEM_HASH_CHARS]}"
    calls = [
        {
            "type": "function_call",
            "id": f"fc_{place}_{request_hash[:ITEM_HASH_CHARS]}",
            "call_id": call["id"],
            **call["function"],
            **done,
        }
        for place, call in enumerate(tool_calls(request_hash, answer))
    ]
    return [message, *calls] if answer.text or not calls else calls


def usage_as_told(usage: Mapping[str, int]) -> dict[str, Any]:
    """Chat completions' usage in this interface's words."""
    return {
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": usage["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage["total_tokens"],
    }


def _messages(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    messages: list[dict[str, Any]] = []
    for item in items if isinstance(items, list) else []:
        match item:
            case {"type": "function_call", "call_id": call_id, "name": name, **rest}:
                function = {"name": name, "arguments": rest.get("arguments", "")}
                _asking(messages).append({"id": call_id, "type": "function", "function": function})
            case {"type": "function_call_output", "call_id": call_id, "output": result}:
                messages.append({"role": "tool", "tool_call_id": call_id, "content": result})
            case {"role": role, "content": content}:
                messages.append({"role": role, "content": content})
            case _:
                continue
    return messages


def _asking(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The calls of the assistant's message that the next call belongs to."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": None})
    calls: list[dict[str, Any]] = messages[-1].setdefault("tool_calls", [])
    return calls


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = {key: value for key, value in tool.items() if key not in ("type", "strict")}
    return {"type": "function", "function": function}
