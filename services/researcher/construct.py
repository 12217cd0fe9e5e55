"""Graph construction: from a document to nodes and edges."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from services.researcher.acquire import Acquired
from services.researcher.prompts import NOTHING_WRITTEN, construction_message
from services.researcher.situation import Situation
from shared.graph.tools import Tools
from shared.llm.embedding import Embeddings
from shared.llm.phase import Model, PhaseRun
from shared.llm.tool_loop import FollowUp, ToolLoop
from shared.store.words import Phase
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
        "Construction ended without a single write, so it was asked once more.", NOTHING_WRITTEN
    )


def _different(results: Sequence[Json], which: str) -> list[UUID]:
    return [UUID(each) for each in dict.fromkeys(result[which] for result in results)]
