"""The one door to the model, and what stands behind it as a rule: chat completions."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from openai.types.chat import ChatCompletion

from shared.errors import TransientError
from shared.llm.chat import ChatAnswer, ChatRequest, ToolCall, assistant_message
from shared.llm.server import ModelServer
from shared.llm.streamed import Streamed
from shared.store.in_flight import InFlight

IDEMPOTENCY_KEY = "Idempotency-Key"

Hear = Callable[[str], Awaitable[None]]
"""Is told the text of an answer that is under way, each time all of it so far. After a broken try it begins anew."""


class Provider(Protocol):
    """Whoever answers requests, by whatever interface."""

    async def complete(
        self, request: ChatRequest, in_flight: InFlight, hear: Hear | None = None
    ) -> ChatAnswer:
        """Sends `request`, or finds it where it was sent before and can be found, and returns the answer.

        Where `hear` is given and the interface can, it is told the text as it comes; what it raises ends the call.
        Every sending stands in `in_flight.sending()`. Raises PermanentError for what another try cannot mend (key, model,
        request, budget), TransientError for the rest.
        """

    async def close(self) -> None: ...


class ChatProvider:
    """Any server that speaks chat completions. An answer has no name before it is whole, so there is none to wait for."""

    def __init__(self, server: ModelServer) -> None:
        self._server = server
        self.close = server.close

    async def complete(
        self, request: ChatRequest, in_flight: InFlight, hear: Hear | None = None
    ) -> ChatAnswer:
        if hear is None:
            return await self._server.patiently(lambda: self._complete_once(request, in_flight))
        return await self._server.patiently(lambda: self._complete_aloud(request, in_flight, hear))

    async def _complete_once(self, request: ChatRequest, in_flight: InFlight) -> ChatAnswer:
        async with in_flight.sending():
            sent = self._server.client.chat.completions.create(
                **request.sent_body, extra_headers={IDEMPOTENCY_KEY: in_flight.key}
            )
            return _answer(await self._server.asked(sent, request.model))

    async def _complete_aloud(
        self, request: ChatRequest, in_flight: InFlight, hear: Hear
    ) -> ChatAnswer:
        heard = Streamed()
        async with in_flight.sending():
            sent = self._server.client.chat.completions.create(
                **request.sent_body,
                stream=True,
                stream_options={"include_usage": True},
                extra_headers={IDEMPOTENCY_KEY: in_flight.key},
            )
            async with await self._server.asked(sent, request.model) as stream:
                chunks = aiter(stream)
                while (
                    chunk := await self._server.asked(anext(chunks, None), request.model)
                ) is not None:
                    if heard.take(chunk):
                        await hear(heard.text)
            return heard.answer()


def _answer(completion: ChatCompletion) -> ChatAnswer:
    if not completion.choices:
        raise TransientError("the model server answered without any choice")
    choice = completion.choices[0]
    usage = completion.usage
    calls = [
        ToolCall(call.id, call.function.name, call.function.arguments)
        for call in choice.message.tool_calls or []
        if call.type == "function"
    ]
    return ChatAnswer(
        message=assistant_message(choice.message.content, calls),
        finish_reason=choice.finish_reason,
        input_tokens=usage.prompt_tokens if usage else None,
        output_tokens=usage.completion_tokens if usage else None,
    )
