"""The model by OpenAI's Responses API, in the background: an answer has an id as soon as it is ordered."""

from functools import partial
from typing import Any

import openai

from shared.errors import PermanentError
from shared.llm.answers import AnswerError
from shared.llm.chat import ChatAnswer, ChatRequest
from shared.llm.provider import IDEMPOTENCY_KEY, Hear
from shared.llm.responses import Json, answer_of, body_of
from shared.llm.server import REFUSED_REQUEST, ModelServer
from shared.store.in_flight import CallLostError, InFlight, looked_for
from shared.store.storable import error_text

_MENDABLE_CODES = frozenset({"server_error", "rate_limit_exceeded"})


class BackgroundProvider:
    """OpenAI, and who speaks its Responses API with `background` and `store`: the answers lie there for a while."""

    def __init__(self, server: ModelServer) -> None:
        self._server = server
        self.close = server.close

    async def complete(
        self, request: ChatRequest, in_flight: InFlight, hear: Hear | None = None
    ) -> ChatAnswer:
        """Ends when the answer does, however long that takes. Cancelled, it leaves the answer to whoever resumes.

        `hear` is told nothing: an answer that is made in the background is collected when it is whole.
        """
        return await in_flight.found_or_ordered(
            partial(self._order, request, in_flight), partial(self._collect, request.model)
        )

    async def _order(self, request: ChatRequest, in_flight: InFlight, key: str) -> str:
        async def order_once() -> str:
            async with in_flight.sending():
                sent = self._server.client.responses.with_raw_response.create(
                    **body_of(request),
                    background=True,
                    store=True,
                    extra_headers={IDEMPOTENCY_KEY: key},
                )
                response = await self._server.object_of(sent, request.model)
                reference = response.get("id")
                if not isinstance(reference, str) or not reference:
                    raise AnswerError(
                        f"{self._server.name} took an order and gave no id", said=repr(response)
                    )
                return reference

        return await self._server.patiently(order_once)

    async def _collect(self, model: str, reference: str) -> ChatAnswer:
        response = await looked_for(partial(self._look, model, reference))
        if response.get("status") not in ("completed", "incomplete"):
            raise _unanswered(reference, response)
        try:
            answer = answer_of(self._server.name, response)
        except AnswerError as error:
            # Under this reference there will never be another: the next try orders it anew.
            raise CallLostError(str(error)) from error
        if answer.usage_fault is not None:
            self._server.warn(f"{self._server.name}: {answer.usage_fault}")
        return answer

    async def _look(self, model: str, reference: str) -> Json | None:
        try:
            response = await self._server.object_of(
                self._server.client.responses.with_raw_response.retrieve(reference), model
            )
        except PermanentError as error:
            if isinstance(error.__cause__, openai.NotFoundError):
                raise CallLostError(
                    f"the model server has no answer {reference} any more"
                ) from error
            raise
        return None if response.get("status") in ("queued", "in_progress") else response


def _unanswered(reference: str, response: Json) -> CallLostError | PermanentError:
    """What follows from an answer that failed or was cancelled."""
    error: Any = response.get("error")
    if not isinstance(error, dict):
        said = f": {error_text(str(error))}" if error else ""
        status = error_text(str(response.get("status")))
        return CallLostError(f"the model's answer {reference} ended as {status}{said}")
    message = error_text(str(error.get("message")))
    if error.get("code") in _MENDABLE_CODES:
        return CallLostError(f"the model's answer {reference} ended as failed: {message}")
    return PermanentError(REFUSED_REQUEST, f"the model refused: {message}")
