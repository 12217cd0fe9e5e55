"""An agent's knowledge graph: overview, nodes, edges, types, duplicate candidates and merges."""

from http import HTTPStatus
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Body, Depends, Query, Request
from starlette.responses import Response

from services.api.auth.dependencies import OwnedAgent
from services.api.commands import distinct_pairs as distinct_commands
from services.api.commands import merges as merge_commands
from services.api.commands.distinct_pairs import NewDistinctPair
from services.api.commands.merges import NewMerge
from services.api.http.dependencies import Page, PageQuery
from services.api.http.etags import UNCHANGED, etag_response
from services.api.http.idempotency import Idempotent
from services.api.http.problem_details import NotFoundError, problems
from services.api.queries import entity_resolution, provenance
from services.api.queries import graph as graph_queries
from services.api.queries.graph import EdgeFilter, NodeFilter
from shared.events.envelope import Utc
from shared.graph.entity_resolution.redirects import resolve_redirects
from shared.schemas.base import (
    EdgeResponse,
    EdgeTypeResponse,
    GraphCounts,
    GraphResponse,
    NodeResponse,
    NodeTypeResponse,
    PageRequest,
)
from shared.schemas.graph import (
    DistinctPairResponse,
    DuplicatePair,
    EdgeDetails,
    EdgeTypeDetails,
    MergeResponse,
    NeighbourhoodResponse,
    NodeDetails,
    NodeTypeDetails,
)
from shared.schemas.provenance import EvidenceResponse

router = APIRouter(prefix="/agents/{agent}", tags=["graph"])


Limit = Annotated[int, Query(ge=0, le=graph_queries.MAX_LIMIT)]


@router.get("/graph", name="show")
async def show_graph(
    access: OwnedAgent,
    limit: Limit = 100,
    type_name: Annotated[str | None, Query(alias="type")] = None,
) -> GraphResponse:
    """Counts and types of the whole graph, and the `limit` most recently changed nodes (optionally of one type) and edges.

    Counts per type are limited to some thousands; then `has_more` is set.
    """
    session, scope = access.session, access.scope
    types = await graph_queries.types(session, scope)
    by_type = await graph_queries.count_by_type(session, scope)
    return GraphResponse(
        counts=GraphCounts.model_validate(graph_queries.total_counts(by_type)),
        node_types=[
            NodeTypeResponse(
                name=node.name, description=node.description, nodes=by_type.nodes.get(node.name, 0)
            )
            for node in types.nodes
        ],
        edge_types=[
            EdgeTypeResponse(
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

OfType = Annotated[str | None, Query(alias="type", description="Only nodes of this type")]
Since = Annotated[Utc | None, Query(description="Only nodes updated since then")]
IdPrefix = Annotated[
    str | None,
    Query(pattern="^[0-9a-fA-F-]{4,36}$", description="With an id that begins so"),
]


@router.get("/nodes")
async def list_nodes(
    access: OwnedAgent,
    page_request: PageQuery,
    type_name: OfType = None,
    updated_since: Since = None,
    search: Annotated[
        str | None,
        Query(min_length=1, max_length=200, description="Words of the name, or their beginnings"),
    ] = None,
    id_prefix: IdPrefix = None,
) -> Page[NodeResponse]:
    """Lists nodes, most recently changed first."""
    node_filter = NodeFilter(type_name, updated_since, search, id_prefix)
    return await graph_queries.list_nodes(access.session, access.scope, page_request, node_filter)


@router.get("/nodes/{node_id}", response_model=NodeDetails, responses=UNCHANGED)
async def show_node(access: OwnedAgent, node_id: NodeId, request: Request) -> Response:
    """A node with the first pages of its edges and evidence. For a merged node, the node it was merged into."""
    node = await graph_queries.find_node(access.session, access.scope, node_id)
    if node is None:
        raise NotFoundError("node", node_id)
    return etag_response(request, node)


@router.get("/nodes/{node_id}/edges")
async def list_edges_of_node(
    access: OwnedAgent, page_request: PageQuery, node_id: NodeId, type_name: OfType = None
) -> Page[EdgeResponse]:
    """Lists the edges that start or end at the node, most recently changed first."""
    if not await graph_queries.has_node(access.session, access.scope, node_id):
        raise NotFoundError("node", node_id)
    edge_filter = EdgeFilter(type_name=type_name, node_id=node_id)
    return await graph_queries.list_edges(access.session, access.scope, page_request, edge_filter)


@router.get("/nodes/{node_id}/evidence")
async def list_evidence_of_node(
    access: OwnedAgent, page_request: PageQuery, node_id: UUID
) -> Page[EvidenceResponse]:
    """Lists evidence from pages, by the date of validity, newest first."""
    if not await graph_queries.has_node(access.session, access.scope, node_id):
        raise NotFoundError("node", node_id)
    return await provenance.list_evidence_of_node(
        access.session, access.scope, node_id, page_request
    )


@router.get("/nodes/{node_id}/neighbourhood")
async def show_neighbourhood(
    access: OwnedAgent,
    node_id: NodeId,
    depth: Annotated[int, Query(ge=1, le=graph_queries.MAX_DEPTH)] = 1,
    limit: Annotated[
        int, Query(ge=1, le=graph_queries.MAX_NODES, description="Maximum number of nodes")
    ] = 50,
) -> NeighbourhoodResponse:
    """Nodes and edges within one or two edges of the node."""
    neighbourhood_view = await graph_queries.neighbourhood(
        access.session, access.scope, node_id, depth=depth, limit=limit
    )
    if neighbourhood_view is None:
        raise NotFoundError("node", node_id)
    return neighbourhood_view


@router.get("/edges")
async def list_edges(
    access: OwnedAgent,
    page_request: PageQuery,
    type_name: OfType = None,
    updated_since: Since = None,
    source_id: Annotated[
        UUID | None, Query(description="Only edges that start at this node")
    ] = None,
    target_id: Annotated[UUID | None, Query(description="Only edges that end at this node")] = None,
    node_id: Annotated[UUID | None, Query(description="With this node at either end")] = None,
    id_prefix: IdPrefix = None,
) -> Page[EdgeResponse]:
    """Lists edges, most recently changed first."""
    edge_filter = EdgeFilter(type_name, updated_since, source_id, target_id, node_id, id_prefix)
    return await graph_queries.list_edges(access.session, access.scope, page_request, edge_filter)


@router.get("/edges/{edge_id}", response_model=EdgeDetails, responses=UNCHANGED)
async def show_edge(access: OwnedAgent, edge_id: UUID, request: Request) -> Response:
    """An edge with its first page of evidence. For an edge moved by a merge, the present edge."""
    [edge_id] = await resolve_redirects(access.session, access.scope, [edge_id])
    edge = await graph_queries.find_edge(access.session, access.scope, edge_id)
    if edge is None:
        raise NotFoundError("edge", edge_id)
    return etag_response(request, edge)


@router.get("/edges/{edge_id}/evidence")
async def list_evidence_of_edge(
    access: OwnedAgent, page_request: PageQuery, edge_id: UUID
) -> Page[EvidenceResponse]:
    """Lists evidence from pages, by the date of validity, newest first."""
    if not await graph_queries.has_edge(access.session, access.scope, edge_id):
        raise NotFoundError("edge", edge_id)
    return await provenance.list_evidence_of_edge(
        access.session, access.scope, edge_id, page_request
    )


@router.get("/node-types", response_model=Page[NodeTypeDetails], responses=UNCHANGED)
async def list_node_types(
    access: OwnedAgent, page_request: PageQuery, request: Request
) -> Response:
    """Lists node types by name, with the JSON Schema of their properties and an example."""
    return etag_response(
        request, await graph_queries.list_node_types(access.session, access.scope, page_request)
    )


@router.get("/node-types/{node_type}", response_model=NodeTypeDetails, responses=UNCHANGED)
async def show_node_type(access: OwnedAgent, node_type: str, request: Request) -> Response:
    node_types_page = await graph_queries.list_node_types(
        access.session, access.scope, PageRequest(1), node_type
    )
    if not node_types_page.items:
        raise NotFoundError("node type", node_type)
    return etag_response(request, node_types_page.items[0])


@router.get("/edge-types", response_model=Page[EdgeTypeDetails], responses=UNCHANGED)
async def list_edge_types(
    access: OwnedAgent, page_request: PageQuery, request: Request
) -> Response:
    """Lists edge types by name, with their allowed source and target types."""
    return etag_response(
        request, await graph_queries.list_edge_types(access.session, access.scope, page_request)
    )


@router.get("/edge-types/{edge_type}", response_model=EdgeTypeDetails, responses=UNCHANGED)
async def show_edge_type(access: OwnedAgent, edge_type: str, request: Request) -> Response:
    edge_types_page = await graph_queries.list_edge_types(
        access.session, access.scope, PageRequest(1), edge_type
    )
    if not edge_types_page.items:
        raise NotFoundError("edge type", edge_type)
    return etag_response(request, edge_types_page.items[0])


@router.get("/duplicates", name="list_duplicates")
async def list_duplicate_candidates(
    access: OwnedAgent, page_request: PageQuery
) -> Page[DuplicatePair]:
    """Lists pairs of possible duplicates. A page checks `limit` nodes, most recently changed first, and may be empty."""
    return await entity_resolution.list_duplicate_candidates(
        access.session, access.scope, page_request
    )


@router.get("/distinct-pairs")
async def list_distinct_pairs(
    access: OwnedAgent, page_request: PageQuery
) -> Page[DistinctPairResponse]:
    """Lists pairs of nodes that were declared distinct, newest first."""
    return await entity_resolution.list_distinct_pairs(access.session, access.scope, page_request)


@router.post(
    "/distinct-pairs",
    status_code=HTTPStatus.CREATED,
    response_model=DistinctPairResponse,
    responses=problems(HTTPStatus.CONFLICT),
)
async def make_distinct_pair(
    access: OwnedAgent, once: Idempotent, body: Annotated[NewDistinctPair, Body()]
) -> Response:
    """Declares two nodes distinct: they are not listed as duplicates any more, as long as they keep their names."""

    async def make() -> DistinctPairResponse:
        return await distinct_commands.declare_distinct(access, body)

    return await once.answer(make)


@router.delete("/distinct-pairs/{pair_id}", status_code=HTTPStatus.NO_CONTENT)
async def delete_distinct_pair(access: OwnedAgent, pair_id: UUID) -> None:
    """Forgets a pair: its nodes can be listed as duplicates again."""
    await distinct_commands.forget_distinct(access, pair_id)


@router.get("/merges")
async def list_merges(access: OwnedAgent, page_request: PageQuery) -> Page[MergeResponse]:
    """Lists merges, newest first, including undone ones."""
    return await entity_resolution.list_merges(
        access.session, access.owner_id, access.agent.id, page_request
    )


@router.post(
    "/merges",
    status_code=HTTPStatus.CREATED,
    response_model=MergeResponse,
    responses=problems(HTTPStatus.CONFLICT),
)
async def make_merge(
    access: OwnedAgent, once: Idempotent, body: Annotated[NewMerge, Body()]
) -> Response:
    """Merges two nodes: one gets the names, evidence and edges of the other, whose id redirects to it."""

    async def make() -> MergeResponse:
        return await merge_commands.merge_nodes(access, body)

    return await once.answer(make)


@router.get("/merges/{merge_id}")
async def show_merge(access: OwnedAgent, merge_id: UUID) -> MergeResponse:
    return await merge_commands.get_merge(access, merge_id)


@router.post("/merges/{merge_id}/undo", responses=problems(HTTPStatus.CONFLICT))
async def undo_merge(access: OwnedAgent, merge_id: UUID) -> MergeResponse:
    """Undoes a merge: both nodes exist again. Later evidence stays with the kept node. Repeated requests count once."""
    return await merge_commands.undo_merge(access, merge_id)
