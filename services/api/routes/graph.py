"""What an agent knows, and what it concluded."""

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from services.api.access import AgentAccess, OwnedAgent
from shared.graph import read
from shared.graph.read import Conclusion
from shared.store.reading import graph
from shared.store.reading.graph import Named
from shared.store.reading.shapes import (
    CitationView,
    ConclusionView,
    CountsView,
    EdgeTypeView,
    EdgeView,
    GraphView,
    NodeTypeView,
    NodeView,
)

router = APIRouter(prefix="/agents/{agent}", tags=["graph"])

Limit = Annotated[int, Query(ge=0, le=read.MAX_LIMIT)]


@router.get("/graph")
async def show(
    access: OwnedAgent,
    limit: Limit = 100,
    type_name: Annotated[str | None, Query(alias="type")] = None,
) -> GraphView:
    """Counts and types of all; the nodes (of one type, where asked for) and edges touched last, `limit` of each."""
    session, scope = access.session, access.scope
    found = await read.types(session, scope)
    by_type = await graph.counts_by_type(session, scope.owner_id, scope.agent_id)
    nodes = await read.nodes(session, scope, type_name=type_name, limit=limit)
    edges = await read.edges(session, scope, limit=limit)
    return GraphView(
        counts=CountsView.model_validate(await read.counts(session, scope)),
        node_types=[
            NodeTypeView(
                name=each.name, description=each.description, nodes=by_type.nodes.get(each.name, 0)
            )
            for each in found.nodes
        ],
        edge_types=[
            EdgeTypeView(
                name=each.name, description=each.description, edges=by_type.edges.get(each.name, 0)
            )
            for each in found.edges
        ],
        nodes=[NodeView.model_validate(node) for node in nodes],
        edges=[EdgeView.model_validate(edge) for edge in edges],
    )


@router.get("/analyses")
async def analyses(access: OwnedAgent, limit: Limit = 100) -> list[ConclusionView]:
    """The newest first, each with what it cites."""
    return await _resolved(access, await read.analyses(access.session, access.scope, limit=limit))


@router.get("/advice")
async def advice(access: OwnedAgent, limit: Limit = 100) -> list[ConclusionView]:
    """The newest first, each with the analyses that it stands on."""
    return await _resolved(access, await read.advice(access.session, access.scope, limit=limit))


async def _resolved(access: AgentAccess, conclusions: Sequence[Conclusion]) -> list[ConclusionView]:
    cited = [citation.id for each in conclusions for citation in each.citations]
    names = await graph.named(access.session, access.owner_id, access.agent.id, cited)
    return [_view(each, names) for each in conclusions]


def _view(conclusion: Conclusion, names: dict[UUID, Named]) -> ConclusionView:
    citations = [
        CitationView(
            kind=citation.kind.value,
            id=citation.id,
            type=named.type if (named := names.get(citation.id)) else None,
            name=named.name if named else None,
        )
        for citation in conclusion.citations
    ]
    return ConclusionView(
        id=conclusion.id,
        word=conclusion.word,
        name=conclusion.name,
        summary=conclusion.summary,
        content=conclusion.content,
        confidence=conclusion.confidence,
        generated_at=conclusion.generated_at,
        iteration_id=conclusion.iteration_id,
        citations=citations,
    )
