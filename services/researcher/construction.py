"""Graph construction: from a document to nodes and edges, and their embeddings."""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from services.researcher.acquisition import Acquired
from services.researcher.prompts import CONSTRUCTION_RULES, construction_message
from services.researcher.query_context import QueryContext
from services.researcher.sentence_facts import SentenceFacts
from shared.billing.embedding_cache import Vector
from shared.enums import Phase
from shared.graph import context
from shared.graph.retrieval import EmbeddingSearch
from shared.graph.retrieval.embedding_backlog import EmbeddingBatch, plan_step_batches, plan_sweep
from shared.graph.scope import GraphScope
from shared.graph.short_ids import ShortIds
from shared.graph.tools import GraphTools
from shared.llm.embeddings import EmbeddingOutcome, Embeddings
from shared.llm.phase_run import Model, PhaseRun
from shared.llm.tool_loop import ToolLoop
from shared.tools import Json


@dataclass(frozen=True)
class WrittenElements:
    """The distinct nodes and edges that were created or updated."""

    nodes: Sequence[UUID]
    edges: Sequence[UUID]
    repairs: int = 0
    """Repairs of the model's tool calls by code."""
    notes: Sequence[str] = ()
    """What the owner must know of the run."""


async def construct(
    model: Model,
    query_context: QueryContext,
    acquired: Acquired,
    tools: GraphTools,
    short_ids: ShortIds | None = None,
) -> tuple[Embeddings | None, WrittenElements]:
    """Runs the construction phase. Also returns the embeddings client of the run; None if embedding search is off."""
    named = context.named_nodes(query_context.scope, acquired.document)
    async with model.database.connection() as connection:
        known_nodes = await named.answer(connection)
    message = construction_message(
        query_context.agent.mission,
        query_context.query,
        acquired.document,
        acquired.sources,
        query_context.survey.text,
        known_nodes,
        query_context.now,
    )
    run = PhaseRun(
        model,
        query_context.lease,
        query_context.agent,
        Phase.GRAPH_CONSTRUCTION,
        message,
        rules=CONSTRUCTION_RULES,
        context=query_context.survey.text,
        pinned_for=query_context.survey.pinned_for,
    )
    loop = ToolLoop(
        run,
        tools,
        must_act=True,
        fallback=SentenceFacts.of(query_context, acquired.sentences),
        short_names=short_ids,
    )
    await loop.run()
    return loop.embeddings, WrittenElements(
        nodes=_distinct_ids(loop.results_of("addGraphNode"), "nodeId"),
        edges=_distinct_ids(loop.results_of("addGraphEdge"), "edgeId"),
        repairs=run.repair_count,
        notes=run.notes,
    )


def _distinct_ids(results: Sequence[Json], key: str) -> list[UUID]:
    return [UUID(element_id) for element_id in dict.fromkeys(result[key] for result in results)]


StoreVectors = Callable[[EmbeddingBatch, AsyncSession, Sequence[Vector]], Awaitable[None]]


async def embed_nodes(
    embeddings: Embeddings | None,
    scope: GraphScope,
    embedding_search: EmbeddingSearch | None,
    node_ids: Sequence[UUID],
    *,
    sweeps: bool,
) -> None:
    """Embeds the nodes `node_ids` of this step, and if `sweeps`, other nodes without an embedding.

    Does nothing if embeddings are not configured; after a failure, a later step embeds the same nodes.
    """
    if embedding_search is None or embeddings is None:
        return
    async with embeddings.run.transaction() as session:
        batches = await plan_step_batches(session, scope, embedding_search, node_ids)
    await _embed(embeddings, batches, EmbeddingBatch.store)
    if sweeps:
        await _sweep(embeddings, scope, embedding_search)


async def _sweep(
    embeddings: Embeddings, scope: GraphScope, embedding_search: EmbeddingSearch
) -> None:
    async with embeddings.run.transaction() as session:
        sweep_result = await plan_sweep(session, scope, embedding_search)
    if sweep_result is not None and await _embed(
        embeddings, sweep_result.batches, sweep_result.store
    ):
        await embeddings.run.record_in_session(sweep_result.end)


async def _embed(
    embeddings: Embeddings, batches: Sequence[EmbeddingBatch], store: StoreVectors
) -> bool:
    """Embeds the batches in order; whether all were handled.

    A rejected text is skipped, unless every text is rejected: then the cause is not the texts.
    """
    remaining, has_stored, was_refused = deque(batches), False, False
    while remaining:
        batch = remaining.popleft()
        match await embeddings.fetch_and_store(batch.request, partial(store, batch)):
            case EmbeddingOutcome.STORED:
                has_stored = True
            case EmbeddingOutcome.REFUSED:
                was_refused = True
                remaining.extendleft(reversed(batch.halves))
            case EmbeddingOutcome.FAILED:
                return False
    return has_stored or not was_refused
