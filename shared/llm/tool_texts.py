"""What the model writes to tools and is told of them, as texts."""

import json
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from shared.llm.chat import Message, ToolCall
from shared.tools import Json


def reply(call: ToolCall, result: Json) -> Message:
    """What a tool gave, as the model is told it."""
    return {
        "role": "tool",
        "tool_call_id": call.id,
        # Postgres keeps keys in an order of its own: a resumed run must send the same bytes, or it pays again.
        "content": json.dumps(result, ensure_ascii=False, sort_keys=True),
    }


def texts_in(value: Any) -> Iterator[str]:
    """Every text in a value of JSON, names of properties too."""
    match value:
        case str():
            yield value
        case dict():
            for key, inner in value.items():
                yield from (key, *texts_in(inner))
        case list():
            for inner in value:
                yield from texts_in(inner)


def faults(tool: str, error: ValidationError) -> str:
    """What is wrong with the arguments of a tool, for the model."""
    told = "; ".join(
        f"{'.'.join(str(part) for part in fault['loc']) or 'arguments'}: {fault['msg']}"
        for fault in error.errors(include_url=False, include_input=False)[:10]
    )
    return f"the arguments of {tool} do not fit: {told}. Correct them and call again"
