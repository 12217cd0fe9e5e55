"""The model of the reference iteration, in the actor's own process: it answers at once, or after a fixed time."""

import asyncio
import hashlib
import json
from typing import Any, Final

from bench.loop import script
from bench.loop.script import Query, Reference
from shared.billing.resumable_call import InFlight
from shared.llm.messages import ChatAnswer, ChatRequest, ToolCall, assistant_message
from shared.llm.provider import Hear

_TOKENS: Final = (1000, 100)
"""In and out, of every answer."""


class InstantProvider:
    """A `shared.llm.provider.Provider` that knows the script."""

    def __init__(self, delay_seconds: float) -> None:
        self._delay_seconds = delay_seconds

    async def complete(
        self, request: ChatRequest, in_flight: InFlight, hear: Hear | None = None
    ) -> ChatAnswer:
        async with in_flight.sending():
            if self._delay_seconds:
                await asyncio.sleep(self._delay_seconds)
            return answer_to(request, in_flight.key)

    async def close(self) -> None:
        """Nothing is open."""


def answer_to(request: ChatRequest, call_key: str) -> ChatAnswer:
    """What the script says to it; `call_key` is the call's own."""
    asked = str(request.messages[1]["content"])
    is_first = len(request.messages) == 2
    tools = {tool["function"]["name"] for tool in request.tools}
    if request.response_format is not None:
        key = hashlib.sha256(call_key.encode()).hexdigest()[:16]
        return _said(json.dumps(script.plan_for(Reference.within(asked), key)))
    if "tavilySearch" in tools:
        query = Query.within(asked)
        return _used(script.searches(query)) if is_first else _said(script.document(query))
    if not is_first or "addAgentAdviceNode" in tools:
        return _said("That is all there is to it.")
    if "addGraphNode" in tools:
        return _used(script.writes(Reference.within(asked), Query.within(asked)))
    return _used(script.concludes(Reference.within(asked), Query.within(asked).key))


def _said(text: str) -> ChatAnswer:
    return ChatAnswer(assistant_message(text, []), "stop", *_TOKENS)


def _used(calls: list[dict[str, Any]]) -> ChatAnswer:
    named = [
        ToolCall("call", call["function"]["name"], call["function"]["arguments"]) for call in calls
    ]
    return ChatAnswer(assistant_message(None, named), "tool_calls", *_TOKENS)
