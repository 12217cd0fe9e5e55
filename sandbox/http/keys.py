"""Idempotency keys: the sandbox heeds them where a test tells it to, as a gateway before a model server may."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from pydantic import BaseModel, ConfigDict
from starlette.requests import Request

from sandbox.http.call import Call, RefusedError
from sandbox.http.reply import PiecesResponse

HEADER = "idempotency-key"
KEPT_ANSWERS = 10_000


class KeyRule(BaseModel):
    """Whether keys are heeded from now on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    heeded: bool


class KeyMemory:
    """What was answered under which key. Belongs to one running sandbox; heeds no key until told to."""

    def __init__(self) -> None:
        self.heeded = False
        self.replayed = 0
        """Requests that were given an earlier answer, for nothing."""
        self._answers: OrderedDict[str, tuple[str, asyncio.Task[PiecesResponse]]] = OrderedDict()

    async def once(
        self, request: Request, call: Call, make: Callable[[], Awaitable[PiecesResponse]]
    ) -> PiecesResponse:
        """What `make` gives; under a key that was seen, what it gave then. A refusal is not remembered.

        Raises RefusedError (422) for a key that came with another request, and what `make` raises.
        """
        key = request.headers.get(HEADER)
        if not self.heeded or key is None:
            return await make()
        if key not in self._answers:
            return await self._first(key, call, make)
        request_hash, task = self._answers[key]
        if request_hash != call.request_hash:
            said = f"The key {key!r} came with another request before."
            raise RefusedError(422, {"error": {"message": said}})
        answered = (await asyncio.shield(task)).again()
        self.replayed += 1
        return answered

    async def _first(
        self, key: str, call: Call, make: Callable[[], Awaitable[PiecesResponse]]
    ) -> PiecesResponse:
        task = asyncio.ensure_future(make())
        self._answers[key] = (call.request_hash, task)
        if len(self._answers) > KEPT_ANSWERS:
            self._answers.popitem(last=False)
        try:
            return await asyncio.shield(task)
        except RefusedError:
            self._answers.pop(key, None)
            raise
