"""JSON routes of an agent's knowledge graph: overview, nodes, edges, types, duplicate candidates, merges and splits."""

from http import HTTPStatus
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Body, Depends, Query, Request
from starlette.responses import Response

from services.api.auth.dependencies import AgentAccess, OwnedAgent
from services.api.http.dependencies import Page, PageQuery
from services.api.http.etags import UNCHANGED, etag_response
from services.api.http.idempotency import Idempotent
from services.api.http.problem_details import NotFoundError, problems
from services.api.resources.graph import duplicates, model
from services.api.resources.graph.duplicates import NewDistinctPair, NewMerge, NewSplit
from services.api.resources.sources import model as sources
from shared.database.tables import GraphEdge, GraphNode
from shared.graph import types as graph_types
from shared.graph.projection import EDGES, NODES
from shared.schemas.base import (
    EdgeResponse,
    EdgeTypeResponse,
    GraphResponse,
    NodeTypeResponse,
    PageRequest,
)
from shared.schemas.graph import (
    DistinctPairResponse,
    EdgeDetails,
    EdgeTypeDetails,
    MergeResponse,
    NeighbourhoodResponse,
    NodeDetails,
    NodeTypeDetails,
)
from shared.schemas.provenance import EvidenceResponse

router: Final = APIRouter(prefix="/agents/{agent}", tags=["graph"])

router.get("/nodes")(model.list_nodes)
router.get("/edges")(model.list_edges)
router.get("/duplicates", name="list_duplicates")(duplicates.list_duplicate_candidates)
router.get("/distinct-pairs")(duplicates.list_distinct_pairs)
router.get("/merges")(duplicates.list_merges)
router.get("/merges/{merge_id}", name="show_merge")(duplicates.get_merge)

Limit = Annotated[int, Query(ge=0, le=model.MAX_LIMIT)]


@router.get("/graph", name="show")
async def show_graph(
    access: OwnedAgent,
    limit: Limit = 100,
    type_name: Annotated[str | None, Query(alias="type")] = None,
) -> GraphResponse:
    """Counts and types of the whole graph, and the `limit` most recently changed nodes (optionally of one type) and edges.

    Counts per type are limited to some thousands; then `has_more` is set.
    """
    by_type = await model.count_by_type(access)
    node_types = await graph_types.list_node_types(access.session, access.scope)
    edge_types = await graph_types.list_edge_types(access.session, access.scope)
    return GraphResponse(
        counts=by_type.totals,
        node_types=[
            NodeTypeResponse(
                name=node.name, description=node.description, nodes=by_type.nodes.get(node.name, 0)
            )
            for node in node_types
        ],
        edge_types=[
            EdgeTypeResponse(
                name=edge.name, description=edge.description, edges=by_type.edges.get(edge.name, 0)
            )
            for edge in edge_types
        ],
        nodes=await model.newest_nodes(access, type_name=type_name, limit=limit),
        edges=await model.newest_edges(access, limit=limit),
    )


async def _current_node_id(access: OwnedAgent, node_id: UUID) -> UUID:
    return await model.current_id(access, node_id)


NodeId = Annotated[UUID, Depends(_current_node_id, scope="function")]


async def _require(
    access: AgentAccess, table: type[GraphNode | GraphEdge], noun: str, element_id: UUID
) -> None:
    if not await model.has_element(access, table, element_id):
        raise NotFoundError(noun, element_id)


@router.get("/nodes/{node_id}", response_model=NodeDetails, responses=UNCHANGED)
async def show_node(access: OwnedAgent, node_id: NodeId, request: Request) -> Response:
    """A node with the first pages of its edges and evidence. For a merged node, the node it was merged into."""
    return etag_response(request, await model.get_node(access, node_id))


@router.get("/nodes/{node_id}/edges")
async def list_edges_of_node(
    access: OwnedAgent, page_request: PageQuery, node_id: NodeId, type_name: model.OfType = None
) -> Page[EdgeResponse]:
    """Lists the edges that start or end at the node, most recently changed first."""
    await _require(access, GraphNode, "node", node_id)
    return await model.list_edges(access, page_request, type_name, node_id=node_id)


@router.get("/nodes/{node_id}/evidence")
async def list_evidence_of_node(
    access: OwnedAgent, page_request: PageQuery, node_id: UUID
) -> Page[EvidenceResponse]:
    """Lists evidence from pages, by the date of validity, newest first."""
    await _require(access, GraphNode, "node", node_id)
    return await sources.list_evidence(access, NODES, node_id, page_request)


@router.get("/nodes/{node_id}/neighbourhood")
async def show_neighbourhood(
    access: OwnedAgent,
    node_id: NodeId,
    depth: Annotated[int, Query(ge=1, le=model.MAX_DEPTH)] = 1,
    limit: Annotated[
        int, Query(ge=1, le=model.MAX_NODES, description="Maximum number of nodes")
    ] = 50,
) -> NeighbourhoodResponse:
    """Nodes and edges within one or two edges of the node."""
    return await model.load_neighbourhood(access, node_id, depth=depth, limit=limit)


@router.get("/edges/{edge_id}", response_model=EdgeDetails, responses=UNCHANGED)
async def show_edge(access: OwnedAgent, edge_id: UUID, request: Request) -> Response:
    """An edge with its first page of evidence. For an edge moved by a merge, the present edge."""
    current = await model.current_id(access, edge_id)
    return etag_response(request, await model.get_edge(access, current))


@router.get("/edges/{edge_id}/evidence")
async def list_evidence_of_edge(
    access: OwnedAgent, page_request: PageQuery, edge_id: UUID
) -> Page[EvidenceResponse]:
    """Lists evidence from pages, by the date of validity, newest first."""
    await _require(access, GraphEdge, "edge", edge_id)
    return await sources.list_evidence(access, EDGES, edge_id, page_request)


@router.get("/node-types", response_model=Page[NodeTypeDetails], responses=UNCHANGED)
async def list_node_types(
    access: OwnedAgent, page_request: PageQuery, request: Request
) -> Response:
    """Lists node types by name, with the JSON Schema of their properties and an example."""
    return etag_response(request, await model.list_node_types(access, page_request))


@router.get("/node-types/{node_type}", response_model=NodeTypeDetails, responses=UNCHANGED)
async def show_node_type(access: OwnedAgent, node_type: str, request: Request) -> Response:
    types = await model.list_node_types(access, PageRequest(1), node_type)
    if not types.items:
        raise NotFoundError("node type", node_type)
    return etag_response(request, types.items[0])


@router.get("/edge-types", response_model=Page[EdgeTypeDetails], responses=UNCHANGED)
async def list_edge_types(
    access: OwnedAgent, page_request: PageQuery, request: Request
) -> Response:
    """Lists edge types by name, with their allowed source and target types."""
    return etag_response(request, await model.list_edge_types(access, page_request))


@router.get("/edge-types/{edge_type}", response_model=EdgeTypeDetails, responses=UNCHANGED)
async def show_edge_type(access: OwnedAgent, edge_type: str, request: Request) -> Response:
    types = await model.list_edge_types(access, PageRequest(1), edge_type)
    if not types.items:
        raise NotFoundError("edge type", edge_type)
    return etag_response(request, types.items[0])


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
    return await once.answer(lambda: duplicates.declare_distinct(access, body))


router.delete(
    "/distinct-pairs/{pair_id}", name="delete_distinct_pair", status_code=HTTPStatus.NO_CONTENT
)(duplicates.forget_distinct)


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
    return await once.answer(lambda: duplicates.merge_nodes(access, body))


router.post("/merges/{merge_id}/undo", responses=problems(HTTPStatus.CONFLICT))(
    duplicates.undo_merge
)


@router.post(
    "/splits",
    status_code=HTTPStatus.CREATED,
    response_model=MergeResponse,
    responses=problems(HTTPStatus.CONFLICT),
)
async def make_split(
    access: OwnedAgent, once: Idempotent, body: Annotated[NewSplit, Body()]
) -> Response:
    """Splits a node: evidence that is of another thing of this name moves to a new node with a qualifier.

    Conclusions that rest on what moves are in doubt. Merging the two nodes undoes it.
    """
    return await once.answer(lambda: duplicates.split_node(access, body))
