"""The embeddings that one phase run pays for: through the ledger and the budgets, like all that it pays for."""

from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from functools import partial
from typing import Final

from sqlalchemy.ext.asyncio import AsyncSession

from shared.billing import embedding_cache
from shared.billing.call_ledger import CallAnswer
from shared.billing.embedding_cache import EmbeddingRequest, Vector
from shared.database import pgvector
from shared.database.tables import Call
from shared.errors import PermanentError, VigilError
from shared.llm.model_server import REFUSED_REQUEST
from shared.llm.phase_run import PhaseRun
from shared.llm.provider import Embedder
from shared.workflow.leases import LeaseLostError

MOST_REFUSALS: Final = 12
"""Of one run, which are enough to find two texts among many: whoever refuses more refuses everything."""

Keep = Callable[[AsyncSession, Sequence[Vector]], Awaitable[None]]
"""Keeps vectors in the transaction that records them. May run more than once."""


class Came(StrEnum):
    """What came of a request."""

    KEPT = "kept"
    REFUSED = "refused"
    """For what is in these texts: others may be taken."""
    FAILED = "failed"
    """Now or before: this run asks for no other."""


class Embeddings:
    """Of one run. None of them is needed: what fails is told, and this run asks for no other."""

    def __init__(self, run: PhaseRun, embedder: Embedder) -> None:
        self.run = run
        self._embedder = embedder
        self._refusals = 0
        self._has_failed = False

    async def known(self, request: EmbeddingRequest) -> None:
        """Sees to it that the ledger has the answer to `request`, from whatever step of the agent."""
        await self._attempt(partial(self._known, request))

    async def kept(self, request: EmbeddingRequest, keep: Keep) -> Came:
        """Has `keep` keep the answer to `request` as it comes into the ledger."""
        return await self._attempt(partial(self._paid, request, keep))

    async def _attempt(self, pay: Callable[[], Awaitable[None]]) -> Came:
        if self._has_failed:
            return Came.FAILED
        try:
            await pay()
        except LeaseLostError:
            raise
        except VigilError as error:
            self._embedder.tell(error)
            return self._failed(error)
        return Came.KEPT

    def _failed(self, error: VigilError) -> Came:
        if isinstance(error, PermanentError) and error.code == REFUSED_REQUEST:
            self._refusals += 1
            if self._refusals < MOST_REFUSALS:
                return Came.REFUSED
        self._has_failed = True
        return Came.FAILED

    async def _known(self, request: EmbeddingRequest) -> None:
        async with self.run.transaction() as session:
            # Without it nobody could look for what is near.
            if not await pgvector.is_there(session):
                return
            known = await embedding_cache.find(session, self.run.lease.agent_id, request)
        if known is None:
            await self._paid(request, _nothing_more)

    async def _paid(self, request: EmbeddingRequest, keep: Keep) -> None:
        run, asked = self.run, request.as_call()
        call = await run.opened(asked)
        if call.answer is not None:
            answer = CallAnswer(call.answer)
        else:
            answer = await self._sent(call, request)
        vectors = embedding_cache.restored(answer.content)

        async def write(session: AsyncSession) -> None:
            await keep(session, vectors)
            if call.answer is None:
                await run.answered_now(session, call, answer)

        await run.record(write)

    async def _sent(self, call: Call, request: EmbeddingRequest) -> CallAnswer:
        ask = partial(self._embedder.embed, request)
        answer = await self.run.sent(call, ask, is_needed=False)
        cost_usd = self.run.prices.tokens_usd(request.model, answer.input_tokens, 0)
        return CallAnswer(embedding_cache.kept(answer.vectors), answer.input_tokens, 0, cost_usd)


async def _nothing_more(_: AsyncSession, __: Sequence[Vector]) -> None:
    """The ledger is where they are looked for."""
