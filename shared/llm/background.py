"""The model by OpenAI's Responses API, in the background: an answer has an id as soon as it is ordered."""

from functools import partial

import openai
from openai.types.responses import Response

from shared.errors import PermanentError
from shared.llm.chat import ChatAnswer, ChatRequest
from shared.llm.provider import IDEMPOTENCY_KEY, Hear
from shared.llm.responses import answer_of, body_of
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
        async def order_once() -> Response:
            async with in_flight.sending():
                sent = self._server.client.responses.create(
                    **body_of(request),
                    background=True,
                    store=True,
                    extra_headers={IDEMPOTENCY_KEY: key},
                )
                return await self._server.asked(sent, request.model)

        return (await self._server.patiently(order_once)).id

    async def _collect(self, model: str, reference: str) -> ChatAnswer:
        response = await looked_for(partial(self._look, model, reference))
        if response.status in ("completed", "incomplete"):
            return answer_of(response)
        raise _unanswered(response)

    async def _look(self, model: str, reference: str) -> Response | None:
        try:
            response = await self._server.asked(
                self._server.client.responses.retrieve(reference), model
            )
        except PermanentError as error:
            if isinstance(error.__cause__, openai.NotFoundError):
                raise CallLostError(
                    f"the model server has no answer {reference} any more"
                ) from error
            raise
        return None if response.status in ("queued", "in_progress") else response


def _unanswered(response: Response) -> CallLostError | PermanentError:
    """What follows from an answer that failed or was cancelled."""
    error = response.error
    if error is None or error.code in _MENDABLE_CODES:
        said = f": {error_text(error.message)}" if error else ""
        return CallLostError(f"the model's answer {response.id} ended as {response.status}{said}")
    return PermanentError(REFUSED_REQUEST, f"the model refused: {error_text(error.message)}")
