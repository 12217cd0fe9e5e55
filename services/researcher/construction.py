"""Graph construction: from a document to nodes and edges, and their embeddings."""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from services.researcher.acquisition import Acquired
from services.researcher.prompts import NOTHING_WRITTEN, construction_message
from services.researcher.query_context import Situation
from shared.billing.embedding_cache import Vector
from shared.enums import Phase
from shared.graph.retrieval import Meaning
from shared.graph.retrieval.embedding_backlog import Due, of_step, sweep
from shared.graph.scope import Scope
from shared.graph.tools import Tools
from shared.llm.embeddings import Came, Embeddings
from shared.llm.phase_run import Model, PhaseRun
from shared.llm.tool_loop import FollowUp, ToolLoop
from shared.tools import Json


@dataclass(frozen=True)
class Written:
    """The different nodes and edges that were added or added to."""

    nodes: Sequence[UUID]
    edges: Sequence[UUID]
    repairs: int = 0
    """That code made of the model's calls."""


async def construct(
    model: Model, situation: Situation, acquired: Acquired, tools: Tools
) -> tuple[Embeddings | None, Written]:
    """Also what asks for vectors in this run; None where nothing is searched by meaning."""
    message = construction_message(
        situation.agent.mission,
        situation.query,
        acquired.document,
        acquired.sources,
        situation.graph_context,
    )
    run = PhaseRun(
        model,
        situation.lease,
        situation.agent,
        Phase.GRAPH_CONSTRUCTION,
        message,
        context=situation.graph_context,
    )
    review = _writes_something if acquired.sources else None
    loop = ToolLoop(run, tools, must_act=True, review=review)
    await loop.last_words()
    return loop.embeddings, Written(
        nodes=_different(loop.results_of("addGraphNode"), "nodeId"),
        edges=_different(loop.results_of("addGraphEdge"), "edgeId"),
        repairs=run.repair_count,
    )


def _writes_something(_: str, loop: ToolLoop) -> FollowUp | None:
    """A `Review`: a document with sources is worth at least one write, or a second look."""
    if loop.results_of("addGraphNode") or loop.results_of("addGraphEdge"):
        return None
    return FollowUp(
        "Construction ended without a single write, so it was asked once more.",
        NOTHING_WRITTEN,
        tools=["addGraphNode"],
    )


def _different(results: Sequence[Json], which: str) -> list[UUID]:
    return [UUID(each) for each in dict.fromkeys(result[which] for result in results)]


Keep = Callable[[Due, AsyncSession, Sequence[Vector]], Awaitable[None]]


async def embed_nodes(
    embeddings: Embeddings | None,
    scope: Scope,
    meaning: Meaning | None,
    own: Sequence[UUID],
    *,
    sweeps: bool,
) -> None:
    """For `own`, which the step has written, and then, where it `sweeps`, for others that have none yet.

    Does nothing where embeddings are not configured; where they fail, a later step sees to the same nodes.
    """
    if meaning is None or embeddings is None:
        return
    async with embeddings.run.transaction() as session:
        batches = await of_step(session, scope, meaning, own)
    await _embed(embeddings, batches, Due.keep)
    if sweeps:
        await _sweep(embeddings, scope, meaning)


async def _sweep(embeddings: Embeddings, scope: Scope, meaning: Meaning) -> None:
    async with embeddings.run.transaction() as session:
        swept = await sweep(session, scope, meaning)
    if swept is not None and await _embed(embeddings, swept.batches, swept.keep):
        await embeddings.run.record(swept.end)


async def _embed(embeddings: Embeddings, batches: Sequence[Due], keep: Keep) -> bool:
    """Whether all were seen to, in their order. A text that is refused is left out, but not where none is taken: then
    it is not the texts that are at fault.
    """
    left, has_kept, was_refused = deque(batches), False, False
    while left:
        batch = left.popleft()
        match await embeddings.kept(batch.request, partial(keep, batch)):
            case Came.KEPT:
                has_kept = True
            case Came.REFUSED:
                was_refused = True
                left.extendleft(reversed(batch.halves))
            case Came.FAILED:
                return False
    return has_kept or not was_refused
