"""Edges: listed and filtered."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from services.api.auth.dependencies import OwnedAgent
from services.api.http.dependencies import Page, Paging
from services.api.http.etags import UNCHANGED, tagged
from services.api.http.problem_details import NotFoundError
from services.api.queries import graph, provenance
from services.api.queries.graph import EdgesWanted
from services.api.routers.nodes import OfType, Since
from shared.graph.entity_resolution.redirects import followed
from shared.schemas.base import EdgeView
from shared.schemas.graph import EdgeDetails
from shared.schemas.provenance import EvidenceView

router = APIRouter(prefix="/agents/{agent}/edges", tags=["graph"])


@router.get("")
async def list_edges(
    access: OwnedAgent,
    paging: Paging,
    type_name: OfType = None,
    updated_since: Since = None,
    source_id: Annotated[UUID | None, Query(description="Beginning at this node")] = None,
    target_id: Annotated[UUID | None, Query(description="Ending at this node")] = None,
    node_id: Annotated[UUID | None, Query(description="With this node at either end")] = None,
) -> Page[EdgeView]:
    """Those touched last first."""
    wanted = EdgesWanted(type_name, updated_since, source_id, target_id, node_id)
    return await graph.edge_page(access.session, access.scope, paging, wanted)


@router.get("/{edge_id}", response_model=EdgeDetails, responses=UNCHANGED)
async def show_edge(access: OwnedAgent, edge_id: UUID, request: Request) -> Response:
    """The id of one that a merge has moved answers with where it is now."""
    [edge_id] = await followed(access.session, access.scope, [edge_id])
    found = await graph.edge(access.session, access.scope, edge_id)
    if found is None:
        raise NotFoundError("edge", edge_id)
    return tagged(request, found)


@router.get("/{edge_id}/evidence")
async def list_evidence_of_edge(
    access: OwnedAgent, paging: Paging, edge_id: UUID
) -> Page[EvidenceView]:
    """What pages say of it: what is true latest first."""
    if not await graph.has_edge(access.session, access.scope, edge_id):
        raise NotFoundError("edge", edge_id)
    return await provenance.of_edge(access.session, access.scope, edge_id, paging)
