"""Edges: listed and filtered."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from services.api.access import OwnedAgent
from services.api.etags import UNCHANGED, tagged
from services.api.pages import Page, Paging
from services.api.problems import NotFoundError
from services.api.routes.nodes import OfType, Since
from shared.graph import evidence, pages
from shared.graph.moves import followed
from shared.graph.pages import EdgesWanted
from shared.store.reading.evidence_shapes import EvidenceView
from shared.store.reading.graph_shapes import EdgeDetails
from shared.store.reading.shapes import EdgeView

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
    return await pages.edges(access.session, access.scope, paging, wanted)


@router.get("/{edge_id}", response_model=EdgeDetails, responses=UNCHANGED)
async def show_edge(access: OwnedAgent, edge_id: UUID, request: Request) -> Response:
    """The id of one that a merge has moved answers with where it is now."""
    [edge_id] = await followed(access.session, access.scope, [edge_id])
    found = await pages.edge(access.session, access.scope, edge_id)
    if found is None:
        raise NotFoundError("edge", edge_id)
    return tagged(request, found)


@router.get("/{edge_id}/evidence")
async def list_evidence_of_edge(
    access: OwnedAgent, paging: Paging, edge_id: UUID
) -> Page[EvidenceView]:
    """What pages say of it: what is true latest first."""
    if not await pages.has_edge(access.session, access.scope, edge_id):
        raise NotFoundError("edge", edge_id)
    return await evidence.of_edge(access.session, access.scope, edge_id, paging)
