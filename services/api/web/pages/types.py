"""The types that an agent's graph is made of."""

from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse

from services.api.auth.dependencies import OwnedAgent
from services.api.http.dependencies import Paging
from services.api.queries import graph
from services.api.web.presenters.graph import rows
from services.api.web.rendering import Answering

router = APIRouter(prefix="/agents/{agent}/types")


class Kind(StrEnum):
    NODE = "node"
    EDGE = "edge"


@router.get("")
async def list_all(
    access: OwnedAgent,
    page: Answering,
    paging: Paging,
    kind: Annotated[Kind, Query(alias="of")] = Kind.NODE,
) -> HTMLResponse:
    """Those of nodes or those of edges, by name."""
    session, scope = access.session, access.scope
    read = graph.node_type_page if kind is Kind.NODE else graph.edge_type_page
    found = await read(session, scope, paging)
    counted = await graph.by_type(session, scope)
    counts = counted.nodes if kind is Kind.NODE else counted.edges
    return await page.answer(
        "graph/types.html",
        agent=access.agent,
        kind=kind,
        types=found.items,
        next=found.next,
        schemas={each.name: rows(each.properties_schema) for each in found.items},
        counts=counts,
        all_counts={Kind.NODE: len(counted.nodes), Kind.EDGE: len(counted.edges)},
        most_counted=graph.MOST_COUNTED,
    )
