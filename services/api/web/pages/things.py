"""A node and an edge in full, each on a page of its own, whose part `panel` stands beside the graph too."""

from http import HTTPStatus
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request
from starlette.datastructures import URL
from starlette.responses import RedirectResponse, Response

from services.api.auth.dependencies import AgentAccess, OwnedAgent
from services.api.http.problem_details import NotFoundError
from services.api.queries import graph, provenance
from services.api.queries.graph import EdgesWanted
from services.api.web.presenters.provenance import sayings
from services.api.web.rendering import Answering
from shared.graph.entity_resolution.redirects import followed
from shared.graph.types import RESERVED_TYPES
from shared.schemas.base import Wanted

router = APIRouter(prefix="/agents/{agent}")

Cursor = Annotated[str | None, Query(description="Of the list that goes on")]


@router.get("/nodes/{node_id}")
async def show_node(
    request: Request,
    access: OwnedAgent,
    page: Answering,
    node_id: UUID,
    quotes: Cursor = None,
    edges: Cursor = None,
) -> Response:
    """One that was merged into another leads to that."""
    current = await _current(access, node_id)
    if current != node_id:
        return _moved(request, node_id, current)
    session, scope = access.session, access.scope
    node = await graph.node(session, scope, node_id)
    if node is None:
        raise NotFoundError("node", node_id)
    told, touching = node.evidence, node.edges
    if quotes is not None:
        told = await provenance.of_node(session, scope, node_id, Wanted(cursor=quotes))
    if edges is not None:
        of_node = EdgesWanted(node_id=node_id)
        touching = await graph.edge_page(session, scope, Wanted(cursor=edges), of_node)
    return await page.answer(
        "graph/node.html",
        agent=access.agent,
        node=node,
        told=told,
        touching=touching,
        said=sayings(node.properties, told.items),
        is_conclusion=node.type in RESERVED_TYPES,
    )


@router.get("/edges/{edge_id}")
async def show_edge(
    request: Request, access: OwnedAgent, page: Answering, edge_id: UUID, quotes: Cursor = None
) -> Response:
    """One that a merge has moved leads to where it is now."""
    current = await _current(access, edge_id)
    if current != edge_id:
        return _moved(request, edge_id, current)
    session, scope = access.session, access.scope
    edge = await graph.edge(session, scope, edge_id)
    if edge is None:
        raise NotFoundError("edge", edge_id)
    told = edge.evidence
    if quotes is not None:
        told = await provenance.of_edge(session, scope, edge_id, Wanted(cursor=quotes))
    return await page.answer(
        "graph/edge.html",
        agent=access.agent,
        edge=edge,
        told=told,
        said=sayings(edge.properties, told.items),
    )


async def _current(access: AgentAccess, thing_id: UUID) -> UUID:
    [current] = await followed(access.session, access.scope, [thing_id])
    return current


def _moved(request: Request, gone: UUID, kept: UUID) -> Response:
    """Not for ever: a merge can be undone."""
    path = request.url.path.removesuffix(str(gone)) + str(kept)
    to = URL(path).include_query_params(**request.query_params)
    return RedirectResponse(str(to), HTTPStatus.SEE_OTHER)
