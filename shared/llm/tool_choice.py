"""A provider that omits `tool_choice` for servers that do not support it."""

from dataclasses import replace

from shared.billing.resumable_call import ResumableCall
from shared.errors import PermanentError
from shared.llm.messages import ChatAnswer, ChatRequest
from shared.llm.model_server import REFUSED_REQUEST
from shared.llm.provider import OnDelta, Provider


class OptionalToolChoice:
    """If the server refuses a request, sends it again without `tool_choice`, and remembers whether that helped.

    It remembers for the lifetime of the process. The recorded call and its hash do not change.
    """

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._is_refused = False
        self.close = provider.close

    async def complete(
        self, request: ChatRequest, in_flight: ResumableCall, on_delta: OnDelta | None = None
    ) -> ChatAnswer:
        """See `Provider.complete`."""
        without = replace(request, tool_choice=None)
        if request.tool_choice is None or self._is_refused:
            return await self._provider.complete(without, in_flight, on_delta)
        try:
            return await self._provider.complete(request, in_flight, on_delta)
        except PermanentError as error:
            if error.code != REFUSED_REQUEST:
                raise
        answer = await self._provider.complete(without, in_flight, on_delta)
        self._is_refused = True
        return answer
