"""An agent's knowledge graph: overview, nodes, edges, types, duplicate candidates and merges."""

from http import HTTPStatus
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Body, Depends, Query, Request
from starlette.responses import Response

from services.api.auth.dependencies import OwnedAgent
from services.api.commands import merges as merge_commands
from services.api.commands.merges import NewMerge
from services.api.http.dependencies import Page, Paging
from services.api.http.etags import UNCHANGED, etag_response
from services.api.http.idempotency import Idempotent
from services.api.http.problem_details import NotFoundError, problems
from services.api.queries import entity_resolution, provenance
from services.api.queries import graph as graph_queries
from services.api.queries.graph import EdgeFilter, NodeFilter
from shared.events.envelope import Utc
from shared.graph.entity_resolution.redirects import resolve_redirects
from shared.schemas.base import (
    CountsView,
    EdgeTypeView,
    EdgeView,
    GraphView,
    NodeTypeView,
    NodeView,
    Wanted,
)
from shared.schemas.graph import (
    DuplicateView,
    EdgeDetails,
    EdgeTypeDetails,
    MergeView,
    NeighbourhoodView,
    NodeDetails,
    NodeTypeDetails,
)
from shared.schemas.provenance import EvidenceView

router = APIRouter(prefix="/agents/{agent}", tags=["graph"])


Limit = Annotated[int, Query(ge=0, le=graph_queries.MAX_LIMIT)]


@router.get("/graph", name="show")
async def show_graph(
    access: OwnedAgent,
    limit: Limit = 100,
    type_name: Annotated[str | None, Query(alias="type")] = None,
) -> GraphView:
    """Counts and types of all; the nodes (of one type, where asked for) and edges touched last, `limit` of each.

    Of a type no more than some thousands are counted; `has_more` says where that is so.
    """
    session, scope = access.session, access.scope
    types = await graph_queries.types(session, scope)
    by_type = await graph_queries.count_by_type(session, scope)
    return GraphView(
        counts=CountsView.model_validate(graph_queries.total_counts(by_type)),
        node_types=[
            NodeTypeView(
                name=node.name, description=node.description, nodes=by_type.nodes.get(node.name, 0)
            )
            for node in types.nodes
        ],
        edge_types=[
            EdgeTypeView(
                name=edge.name, description=edge.description, edges=by_type.edges.get(edge.name, 0)
            )
            for edge in types.edges
        ],
        nodes=await graph_queries.newest_nodes(session, scope, type_name=type_name, limit=limit),
        edges=await graph_queries.newest_edges(session, scope, limit=limit),
    )


async def _current_node_id(access: OwnedAgent, node_id: UUID) -> UUID:
    """Follows merges: returns the id of the node that `node_id` was merged into, if any."""
    [current] = await resolve_redirects(access.session, access.scope, [node_id])
    return current


NodeId = Annotated[UUID, Depends(_current_node_id, scope="function")]

OfType = Annotated[str | None, Query(alias="type", description="Of this type only")]
Since = Annotated[Utc | None, Query(description="Touched since then only")]


@router.get("/nodes")
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
    node_filter = NodeFilter(type_name, updated_since, search)
    return await graph_queries.list_nodes(access.session, access.scope, paging, node_filter)


@router.get("/nodes/{node_id}", response_model=NodeDetails, responses=UNCHANGED)
async def show_node(access: OwnedAgent, node_id: NodeId, request: Request) -> Response:
    """With the first pages of its edges and of what it rests on. One that was merged into another answers with that."""
    node = await graph_queries.find_node(access.session, access.scope, node_id)
    if node is None:
        raise NotFoundError("node", node_id)
    return etag_response(request, node)


@router.get("/nodes/{node_id}/edges")
async def list_edges_of_node(
    access: OwnedAgent, paging: Paging, node_id: NodeId, type_name: OfType = None
) -> Page[EdgeView]:
    """Those that begin or end at it, those touched last first."""
    if not await graph_queries.has_node(access.session, access.scope, node_id):
        raise NotFoundError("node", node_id)
    edge_filter = EdgeFilter(type_name=type_name, node_id=node_id)
    return await graph_queries.list_edges(access.session, access.scope, paging, edge_filter)


@router.get("/nodes/{node_id}/evidence")
async def list_evidence_of_node(
    access: OwnedAgent, paging: Paging, node_id: UUID
) -> Page[EvidenceView]:
    """What pages say of it: what is true latest first."""
    if not await graph_queries.has_node(access.session, access.scope, node_id):
        raise NotFoundError("node", node_id)
    return await provenance.list_evidence_of_node(access.session, access.scope, node_id, paging)


@router.get("/nodes/{node_id}/neighbourhood")
async def show_neighbourhood(
    access: OwnedAgent,
    node_id: NodeId,
    depth: Annotated[int, Query(ge=1, le=graph_queries.MAX_DEPTH)] = 1,
    limit: Annotated[
        int, Query(ge=1, le=graph_queries.MAX_NODES, description="How many nodes to tell at most")
    ] = 50,
) -> NeighbourhoodView:
    """What lies within one or two edges of it."""
    neighbourhood_view = await graph_queries.neighbourhood(
        access.session, access.scope, node_id, depth=depth, limit=limit
    )
    if neighbourhood_view is None:
        raise NotFoundError("node", node_id)
    return neighbourhood_view


@router.get("/edges")
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
    edge_filter = EdgeFilter(type_name, updated_since, source_id, target_id, node_id)
    return await graph_queries.list_edges(access.session, access.scope, paging, edge_filter)


@router.get("/edges/{edge_id}", response_model=EdgeDetails, responses=UNCHANGED)
async def show_edge(access: OwnedAgent, edge_id: UUID, request: Request) -> Response:
    """The id of one that a merge has moved answers with where it is now."""
    [edge_id] = await resolve_redirects(access.session, access.scope, [edge_id])
    edge = await graph_queries.find_edge(access.session, access.scope, edge_id)
    if edge is None:
        raise NotFoundError("edge", edge_id)
    return etag_response(request, edge)


@router.get("/edges/{edge_id}/evidence")
async def list_evidence_of_edge(
    access: OwnedAgent, paging: Paging, edge_id: UUID
) -> Page[EvidenceView]:
    """What pages say of it: what is true latest first."""
    if not await graph_queries.has_edge(access.session, access.scope, edge_id):
        raise NotFoundError("edge", edge_id)
    return await provenance.list_evidence_of_edge(access.session, access.scope, edge_id, paging)


@router.get("/node-types", response_model=Page[NodeTypeDetails], responses=UNCHANGED)
async def list_node_types(access: OwnedAgent, paging: Paging, request: Request) -> Response:
    """By name, each with the JSON Schema of its properties and an example."""
    return etag_response(
        request, await graph_queries.list_node_types(access.session, access.scope, paging)
    )


@router.get("/node-types/{node_type}", response_model=NodeTypeDetails, responses=UNCHANGED)
async def show_node_type(access: OwnedAgent, node_type: str, request: Request) -> Response:
    node_types_page = await graph_queries.list_node_types(
        access.session, access.scope, Wanted(1), node_type
    )
    if not node_types_page.items:
        raise NotFoundError("node type", node_type)
    return etag_response(request, node_types_page.items[0])


@router.get("/edge-types", response_model=Page[EdgeTypeDetails], responses=UNCHANGED)
async def list_edge_types(access: OwnedAgent, paging: Paging, request: Request) -> Response:
    """By name, each with the types of nodes that it may lead from and to."""
    return etag_response(
        request, await graph_queries.list_edge_types(access.session, access.scope, paging)
    )


@router.get("/edge-types/{edge_type}", response_model=EdgeTypeDetails, responses=UNCHANGED)
async def show_edge_type(access: OwnedAgent, edge_type: str, request: Request) -> Response:
    edge_types_page = await graph_queries.list_edge_types(
        access.session, access.scope, Wanted(1), edge_type
    )
    if not edge_types_page.items:
        raise NotFoundError("edge type", edge_type)
    return etag_response(request, edge_types_page.items[0])


@router.get("/duplicates", name="list_duplicates")
async def list_duplicate_candidates(access: OwnedAgent, paging: Paging) -> Page[DuplicateView]:
    """Nodes that may be one thing, among those touched last first; a page looks at `limit` nodes, and may find none."""
    return await entity_resolution.list_duplicate_candidates(access.session, access.scope, paging)


@router.get("/merges")
async def list_merges(access: OwnedAgent, paging: Paging) -> Page[MergeView]:
    """The newest first, undone ones too."""
    return await entity_resolution.list_merges(
        access.session, access.owner_id, access.agent.id, paging
    )


@router.post(
    "/merges",
    status_code=HTTPStatus.CREATED,
    response_model=MergeView,
    responses=problems(HTTPStatus.CONFLICT),
)
async def make_merge(
    access: OwnedAgent, once: Idempotent, body: Annotated[NewMerge, Body()]
) -> Response:
    """One node gets the names, evidence and edges of the other, which is found under its id from then on."""

    async def make() -> MergeView:
        return await merge_commands.merge_nodes(access, body)

    return await once.answer(make)


@router.get("/merges/{merge_id}")
async def show_merge(access: OwnedAgent, merge_id: UUID) -> MergeView:
    return await merge_commands.get_merge(access, merge_id)


@router.post("/merges/{merge_id}/undo", responses=problems(HTTPStatus.CONFLICT))
async def undo_merge(access: OwnedAgent, merge_id: UUID) -> MergeView:
    """Both are there again as they were; what was learned since stays with the one that was kept. Twice is once."""
    return await merge_commands.undo_merge(access, merge_id)
