"""What an agent knows, at a glance."""

from typing import Annotated

from fastapi import APIRouter, Query

from services.api.auth.dependencies import OwnedAgent
from services.api.queries import graph
from shared.schemas.base import CountsView, EdgeTypeView, GraphView, NodeTypeView

router = APIRouter(prefix="/agents/{agent}", tags=["graph"])

Limit = Annotated[int, Query(ge=0, le=graph.MAX_LIMIT)]


@router.get("/graph")
async def show(
    access: OwnedAgent,
    limit: Limit = 100,
    type_name: Annotated[str | None, Query(alias="type")] = None,
) -> GraphView:
    """Counts and types of all; the nodes (of one type, where asked for) and edges touched last, `limit` of each.

    Of a type no more than some thousands are counted; `has_more` says where that is so.
    """
    session, scope = access.session, access.scope
    found = await graph.types(session, scope)
    by_type = await graph.by_type(session, scope)
    return GraphView(
        counts=CountsView.model_validate(graph.summed(by_type)),
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
        nodes=await graph.nodes(session, scope, type_name=type_name, limit=limit),
        edges=await graph.edges(session, scope, limit=limit),
    )
