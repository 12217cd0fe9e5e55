"""A provider that demands tool calls only of servers that know how to: `tool_choice` is not part of every server."""

from dataclasses import replace

from shared.billing.resumable_call import InFlight
from shared.errors import PermanentError
from shared.llm.messages import ChatAnswer, ChatRequest
from shared.llm.model_server import REFUSED_REQUEST
from shared.llm.provider import Hear, Provider


class OptionalToolChoice:
    """Sends a request that the server refuses once more without its `tool_choice`, and remembers whether that helped.

    It remembers for as long as the process lives. What is recorded of the call, and its hash, stay the same.
    """

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._is_refused = False
        self.close = provider.close

    async def complete(
        self, request: ChatRequest, in_flight: InFlight, hear: Hear | None = None
    ) -> ChatAnswer:
        """As `Provider.complete`."""
        without = replace(request, tool_choice=None)
        if request.tool_choice is None or self._is_refused:
            return await self._provider.complete(without, in_flight, hear)
        try:
            return await self._provider.complete(request, in_flight, hear)
        except PermanentError as error:
            if error.code != REFUSED_REQUEST:
                raise
        answer = await self._provider.complete(without, in_flight, hear)
        self._is_refused = True
        return answer
