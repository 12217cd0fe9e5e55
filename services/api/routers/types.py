"""The types of nodes and edges that an agent knows."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from services.api.auth.dependencies import OwnedAgent
from services.api.http.dependencies import Page, Paging
from services.api.http.etags import UNCHANGED, tagged
from services.api.http.problem_details import NotFoundError
from services.api.queries import graph
from shared.schemas.base import Wanted
from shared.schemas.graph import EdgeTypeDetails, NodeTypeDetails

router = APIRouter(prefix="/agents/{agent}", tags=["graph"])


@router.get("/node-types", response_model=Page[NodeTypeDetails], responses=UNCHANGED)
async def list_node_types(access: OwnedAgent, paging: Paging, request: Request) -> Response:
    """By name, each with the JSON Schema of its properties and an example."""
    return tagged(request, await graph.node_type_page(access.session, access.scope, paging))


@router.get("/node-types/{node_type}", response_model=NodeTypeDetails, responses=UNCHANGED)
async def show_node_type(access: OwnedAgent, node_type: str, request: Request) -> Response:
    found = await graph.node_type_page(access.session, access.scope, Wanted(1), node_type)
    if not found.items:
        raise NotFoundError("node type", node_type)
    return tagged(request, found.items[0])


@router.get("/edge-types", response_model=Page[EdgeTypeDetails], responses=UNCHANGED)
async def list_edge_types(access: OwnedAgent, paging: Paging, request: Request) -> Response:
    """By name, each with the types of nodes that it may lead from and to."""
    return tagged(request, await graph.edge_type_page(access.session, access.scope, paging))


@router.get("/edge-types/{edge_type}", response_model=EdgeTypeDetails, responses=UNCHANGED)
async def show_edge_type(access: OwnedAgent, edge_type: str, request: Request) -> Response:
    found = await graph.edge_type_page(access.session, access.scope, Wanted(1), edge_type)
    if not found.items:
        raise NotFoundError("edge type", edge_type)
    return tagged(request, found.items[0])
