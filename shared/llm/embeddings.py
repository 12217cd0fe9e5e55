"""Embeddings that a phase run pays for, through the ledger and the budgets."""

from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from functools import partial
from typing import Final

from shared.billing import embedding_cache
from shared.billing.call_ledger import CallAnswer
from shared.billing.embedding_cache import EmbeddingRequest, Vector
from shared.database import pgvector
from shared.database.transaction import Transaction
from shared.errors import PermanentError, VigilError
from shared.llm.model_server import REFUSED_REQUEST
from shared.llm.phase_run import PhaseRun
from shared.llm.provider import Embedder
from shared.telemetry import tracing
from shared.workflow.leases import LeaseLostError

MAX_REFUSALS: Final = 12
"""Refused requests of one run. A server that refuses more refuses everything; fewer are enough to isolate two bad texts."""

Store = Callable[[Transaction, Sequence[Vector]], Awaitable[None]]
"""Stores vectors in the transaction that records them. May run more than once."""


class EmbeddingOutcome(StrEnum):
    """The outcome of a request."""

    STORED = "stored"
    REFUSED = "refused"
    """The server refused these texts. It may accept others."""
    FAILED = "failed"
    """This request or an earlier one failed. The run sends no more."""


class Embeddings:
    """The embeddings of one run. They are optional: the first failure is reported, and the run sends no more requests."""

    def __init__(self, run: PhaseRun, embedder: Embedder) -> None:
        self.run = run
        self._embedder = embedder
        self._refusals = 0
        self._has_failed = False

    async def ensure_in_ledger(self, request: EmbeddingRequest) -> None:
        """Makes sure that the ledger has the vectors of `request`, from any step of the agent."""
        await self._attempt(partial(self._ensure_in_ledger, request))

    async def fetch_and_store(self, request: EmbeddingRequest, store: Store) -> EmbeddingOutcome:
        """Requests the vectors and stores them with `store` in the transaction that records them."""
        return await self._attempt(partial(self._pay, request, store))

    async def _attempt(self, pay: Callable[[], Awaitable[None]]) -> EmbeddingOutcome:
        if self._has_failed:
            return EmbeddingOutcome.FAILED
        try:
            await pay()
        except LeaseLostError:
            raise
        except VigilError as error:
            self._embedder.report_error(error)
            if isinstance(error, PermanentError) and error.code == REFUSED_REQUEST:
                self._refusals += 1
                if self._refusals < MAX_REFUSALS:
                    return EmbeddingOutcome.REFUSED
            self._has_failed = True
            return EmbeddingOutcome.FAILED
        return EmbeddingOutcome.STORED

    async def _ensure_in_ledger(self, request: EmbeddingRequest) -> None:
        async with self.run.unit.transaction() as transaction:
            # Without pgvector there is no embedding search.
            if not await pgvector.is_installed(transaction):
                return
            vectors = await embedding_cache.find_vectors(
                transaction, self.run.lease.agent_id, request
            )
        if vectors is None:
            await self._pay(request)

    async def _pay(self, request: EmbeddingRequest, store: Store | None = None) -> None:
        """Without `store` the vectors are only stored in the ledger."""
        run = self.run
        call = await run.paid_calls.commit_call(request.call)
        if call.answer is not None:
            answer = CallAnswer(call.answer)
        else:
            attributes = {
                "gen_ai.operation.name": "embeddings",
                "gen_ai.request.model": request.model,
                "vigil.call.id": str(call.id),
            }
            with tracing.child(f"embeddings {request.model}", "client", attributes) as span:
                ask = partial(self._embedder.embed, request)
                embedded = await run.send(call, ask, is_needed=False)
                if span is not None:
                    span.add({"gen_ai.usage.input_tokens": embedded.input_tokens})
            cost_usd = run.prices.tokens_usd(request.model, embedded.input_tokens, 0)
            content = embedding_cache.encode_vectors(embedded.vectors)
            answer = CallAnswer(content, embedded.input_tokens, 0, cost_usd)
        vectors = embedding_cache.decode_vectors(answer.content)

        async def write(transaction: Transaction) -> None:
            if store is not None:
                await store(transaction, vectors)
            if call.answer is None:
                await run.paid_calls.record_answer_now(transaction, call, answer)

        await run.record_in_transaction(write)
