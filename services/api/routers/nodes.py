"""Nodes: listed, filtered, searched, and what lies around one."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from services.api.auth.dependencies import OwnedAgent
from services.api.http.dependencies import Page, Paging
from services.api.http.etags import UNCHANGED, tagged
from services.api.http.problem_details import NotFoundError
from services.api.queries import graph, provenance
from services.api.queries.graph import EdgesWanted, NodesWanted
from shared.events.envelope import Utc
from shared.graph.entity_resolution.redirects import followed
from shared.schemas.base import EdgeView, NodeView
from shared.schemas.graph import NeighbourhoodView, NodeDetails
from shared.schemas.provenance import EvidenceView

router = APIRouter(prefix="/agents/{agent}/nodes", tags=["graph"])


async def _node_id(access: OwnedAgent, node_id: UUID) -> UUID:
    """Where a merge has moved it, if one has."""
    [current] = await followed(access.session, access.scope, [node_id])
    return current


NodeId = Annotated[UUID, Depends(_node_id, scope="function")]

OfType = Annotated[str | None, Query(alias="type", description="Of this type only")]
Since = Annotated[Utc | None, Query(description="Touched since then only")]


@router.get("")
async def list_nodes(
    access: OwnedAgent,
    paging: Paging,
    type_name: OfType = None,
    updated_since: Since = None,
    search: Annotated[
        str | None,
        Query(min_length=1, max_length=200, description="Beginnings of words of the name"),
    ] = None,
) -> Page[NodeView]:
    """Those touched last first."""
    wanted = NodesWanted(type_name, updated_since, search)
    return await graph.node_page(access.session, access.scope, paging, wanted)


@router.get("/{node_id}", response_model=NodeDetails, responses=UNCHANGED)
async def show_node(access: OwnedAgent, node_id: NodeId, request: Request) -> Response:
    """With the first pages of its edges and of what it rests on. One that was merged into another answers with that."""
    found = await graph.node(access.session, access.scope, node_id)
    if found is None:
        raise NotFoundError("node", node_id)
    return tagged(request, found)


@router.get("/{node_id}/edges")
async def list_edges_of_node(
    access: OwnedAgent, paging: Paging, node_id: NodeId, type_name: OfType = None
) -> Page[EdgeView]:
    """Those that begin or end at it, those touched last first."""
    if not await graph.has_node(access.session, access.scope, node_id):
        raise NotFoundError("node", node_id)
    wanted = EdgesWanted(type_name=type_name, node_id=node_id)
    return await graph.edge_page(access.session, access.scope, paging, wanted)


@router.get("/{node_id}/evidence")
async def list_evidence_of_node(
    access: OwnedAgent, paging: Paging, node_id: UUID
) -> Page[EvidenceView]:
    """What pages say of it: what is true latest first."""
    if not await graph.has_node(access.session, access.scope, node_id):
        raise NotFoundError("node", node_id)
    return await provenance.of_node(access.session, access.scope, node_id, paging)


@router.get("/{node_id}/neighbourhood")
async def show_neighbourhood(
    access: OwnedAgent,
    node_id: NodeId,
    depth: Annotated[int, Query(ge=1, le=graph.DEEPEST)] = 1,
    limit: Annotated[
        int, Query(ge=1, le=graph.MOST_NODES, description="How many nodes to tell at most")
    ] = 50,
) -> NeighbourhoodView:
    """What lies within one or two edges of it."""
    found = await graph.neighbourhood_of(
        access.session, access.scope, node_id, depth=depth, limit=limit
    )
    if found is None:
        raise NotFoundError("node", node_id)
    return found
