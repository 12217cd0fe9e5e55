"""Pages of the graph: explorer, node and edge, types, duplicate candidates and merges."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from http import HTTPStatus
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Form, Query, Request
from pydantic import BaseModel
from starlette.datastructures import URL
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.dependencies import AgentAccess, OwnedAgent
from services.api.commands import distinct_pairs as distinct_commands
from services.api.commands import merges as merge_commands
from services.api.commands.distinct_pairs import NewDistinctPair
from services.api.commands.merges import NewMerge, Reason
from services.api.http.dependencies import Page, PageQuery
from services.api.http.problem_details import NotFoundError, ProblemError
from services.api.queries import entity_resolution, provenance
from services.api.queries import graph as graph_queries
from services.api.queries.graph import DrawingFilter, EdgeFilter
from services.api.web.forms import FormState, Submitted, submitted
from services.api.web.presenters.graph import (
    MISSING,
    compare_nodes,
    encode_drawing,
    group_edges,
    list_history,
    property_rows,
)
from services.api.web.presenters.provenance import property_provenance
from services.api.web.rendering import PAGE_HEADERS, PageResponse
from shared.graph.entity_resolution.redirects import resolve_redirects
from shared.graph.types import RESERVED_TYPES
from shared.schemas.base import PageRequest
from shared.schemas.graph import DuplicatePair, GraphLayout

router = APIRouter(prefix="/agents/{agent}")


LIMITS: Final = (300, 1_000, 2_000, 5_000)
COLOURED_TYPES: Final = 10
"""Types with a colour of their own, as many as the style sheet has; the others share one."""
SHOWN_DECISIONS: Final = 10
"""Merges and distinct pairs below the duplicates; the rest has pages of its own."""
AGE_LIMITS: Final = {1: "day", 7: "week", 31: "month", 92: "quarter"}
"""In days."""


class EntryPoint(StrEnum):
    """Where the graph view starts without a node or a search."""

    NEWEST = "newest"
    CONNECTED = "connected"


class LayoutRequest:
    """The start and the filters of the graph view, all from the query string."""

    def __init__(
        self,
        node: UUID | None = None,
        depth: Annotated[int, Query(ge=1, le=graph_queries.MAX_FOCUS_DEPTH)] = 1,
        begin: EntryPoint = EntryPoint.NEWEST,
        types: Annotated[list[str] | None, Query(alias="type", max_length=100)] = None,
        days: Annotated[int, Query(ge=0, le=36_600, description="0 is any age")] = 0,
        search: Annotated[str, Query(max_length=200)] = "",
        limit: Annotated[int, Query(ge=1, le=graph_queries.MAX_DRAWN_NODES)] = LIMITS[1],
    ) -> None:
        self.node = node
        self.depth = depth
        self.begin = begin
        self.types = types or []
        self.days = days
        self.search = search.strip()
        self.limit = limit

    @property
    def of(self) -> DrawingFilter:
        since = None if self.days == 0 else datetime.now(UTC) - timedelta(days=self.days)
        return DrawingFilter(self.types, since)


LayoutParams = Annotated[LayoutRequest, Depends()]


@router.get("/graph")
async def show_explorer(
    access: OwnedAgent, page: PageResponse, entry: LayoutParams
) -> HTMLResponse:
    type_counts = await graph_queries.count_by_type(access.session, access.scope)
    return await page.answer(
        "graph/explorer.html",
        agent=access.agent,
        counts=graph_queries.total_counts(type_counts),
        types=sorted(type_counts.nodes.items(), key=lambda node: (-node[1], node[0])),
        colours=COLOURED_TYPES,
        max_counted=graph_queries.MAX_COUNTED,
        entry=entry,
        limits=LIMITS,
        ages=AGE_LIMITS,
    )


@router.get("/graph/data")
async def show_graph_data(access: OwnedAgent, entry: LayoutParams) -> Response:
    """Returns the nodes and edges of the query: a first view, a search, or the neighbourhood of a node."""
    return _json(encode_drawing(await _graph_data(access, entry)))


@router.get("/graph/paths")
async def show_paths(
    access: OwnedAgent,
    start: Annotated[UUID, Query(alias="from")],
    goal: Annotated[UUID, Query(alias="to")],
) -> Response:
    """Returns the shortest paths between two nodes, with their nodes and edges."""
    ids = await resolve_redirects(access.session, access.scope, [start, goal])
    for node_id in ids:
        if not await graph_queries.has_node(access.session, access.scope, node_id):
            raise NotFoundError("node", node_id)
    drawn = await graph_queries.draw_paths(access.session, access.scope, *ids)
    return _json(encode_drawing(drawn.layout, drawn.paths))


def _json(content: bytes) -> Response:
    return Response(content, headers=PAGE_HEADERS, media_type="application/json")


async def _graph_data(access: AgentAccess, entry: LayoutRequest) -> GraphLayout:
    session, scope = access.session, access.scope
    if entry.node is not None:
        [node_id] = await resolve_redirects(session, scope, [entry.node])
        limit = min(entry.limit, graph_queries.MAX_NODES)
        graph = await graph_queries.draw_neighbourhood(
            session, scope, node_id, depth=entry.depth, limit=limit
        )
        if graph is None:
            raise NotFoundError("node", entry.node)
        return graph
    if entry.search:
        limit = min(entry.limit, graph_queries.MAX_SEARCH_NODES)
        return await graph_queries.draw_search(session, scope, entry.search, entry.of, limit)
    if entry.begin is EntryPoint.CONNECTED:
        return await graph_queries.draw_best_connected(session, scope, entry.of, entry.limit)
    return await graph_queries.draw_newest(session, scope, entry.of, entry.limit)


PageCursor = Annotated[str | None, Query(description="The list to continue")]


@router.get("/nodes/{node_id}")
async def show_node(
    request: Request,
    access: OwnedAgent,
    page: PageResponse,
    node_id: UUID,
    quotes: PageCursor = None,
    edges: PageCursor = None,
) -> Response:
    """Shows a node; the id of a merged node redirects."""
    current = await _current_id(access, node_id)
    if current != node_id:
        return _redirect_to_current(request, node_id, current)
    session, scope = access.session, access.scope
    node = await graph_queries.find_node(session, scope, node_id)
    if node is None:
        raise NotFoundError("node", node_id)
    evidence, edges_page = node.evidence, node.edges
    if quotes is not None:
        evidence = await provenance.list_evidence_of_node(
            session, scope, node_id, PageRequest(cursor=quotes)
        )
    if edges is not None:
        of_node = EdgeFilter(node_id=node_id)
        edges_page = await graph_queries.list_edges(
            session, scope, PageRequest(cursor=edges), of_node
        )
    return await page.answer(
        "graph/node.html",
        agent=access.agent,
        node=node,
        evidence=evidence,
        edges=edges_page,
        provenance=property_provenance(node.properties, evidence.items),
        edge_groups=group_edges(node_id, edges_page.items),
        history=list_history(evidence.items),
        is_conclusion=node.type in RESERVED_TYPES,
    )


@router.get("/edges")
async def find_edge(
    request: Request,
    access: OwnedAgent,
    source: UUID,
    target: UUID,
    type_name: Annotated[str, Query(alias="type", max_length=200)],
) -> Response:
    """Redirects to the edge of a type from one node to another."""
    edge_id = await graph_queries.find_edge_id(
        access.session, access.scope, type_name, source, target
    )
    if edge_id is None:
        raise NotFoundError("edge", f"{source} {type_name} {target}")
    to = URL(f"{request.url.path}/{edge_id}")
    if "part" in request.query_params:
        to = to.include_query_params(part=request.query_params["part"])
    return RedirectResponse(str(to), HTTPStatus.SEE_OTHER)


@router.get("/edges/{edge_id}")
async def show_edge(
    request: Request,
    access: OwnedAgent,
    page: PageResponse,
    edge_id: UUID,
    quotes: PageCursor = None,
) -> Response:
    """Shows an edge; the id of an edge that a merge moved redirects."""
    current = await _current_id(access, edge_id)
    if current != edge_id:
        return _redirect_to_current(request, edge_id, current)
    session, scope = access.session, access.scope
    edge = await graph_queries.find_edge(session, scope, edge_id)
    if edge is None:
        raise NotFoundError("edge", edge_id)
    evidence = edge.evidence
    if quotes is not None:
        evidence = await provenance.list_evidence_of_edge(
            session, scope, edge_id, PageRequest(cursor=quotes)
        )
    return await page.answer(
        "graph/edge.html",
        agent=access.agent,
        edge=edge,
        evidence=evidence,
        provenance=property_provenance(edge.properties, evidence.items),
        history=list_history(evidence.items),
    )


async def _current_id(access: AgentAccess, element_id: UUID) -> UUID:
    [current] = await resolve_redirects(access.session, access.scope, [element_id])
    return current


def _redirect_to_current(request: Request, merged_id: UUID, current_id: UUID) -> Response:
    """Redirects temporarily, because a merge can be undone."""
    path = request.url.path.removesuffix(str(merged_id)) + str(current_id)
    to = URL(path).include_query_params(**request.query_params)
    return RedirectResponse(str(to), HTTPStatus.SEE_OTHER)


class TypeKind(StrEnum):
    NODE = "node"
    EDGE = "edge"


@router.get("/types")
async def list_types(
    access: OwnedAgent,
    page: PageResponse,
    page_request: PageQuery,
    kind: Annotated[TypeKind, Query(alias="of")] = TypeKind.NODE,
) -> HTMLResponse:
    """Lists node types or edge types by name."""
    session, scope = access.session, access.scope
    list_page = (
        graph_queries.list_node_types if kind is TypeKind.NODE else graph_queries.list_edge_types
    )
    types_page = await list_page(session, scope, page_request)
    type_counts = await graph_queries.count_by_type(session, scope)
    counts = type_counts.nodes if kind is TypeKind.NODE else type_counts.edges
    return await page.answer(
        "graph/types.html",
        agent=access.agent,
        kind=kind,
        types=types_page.items,
        next=types_page.next,
        schemas={row.name: property_rows(row.properties_schema) for row in types_page.items},
        counts=counts,
        all_counts={TypeKind.NODE: len(type_counts.nodes), TypeKind.EDGE: len(type_counts.edges)},
        max_counted=graph_queries.MAX_COUNTED,
    )


@router.get("/duplicates")
async def list_duplicate_candidates(
    access: OwnedAgent, page: PageResponse, page_request: PageQuery, node: UUID | None = None
) -> HTMLResponse:
    """Compares nodes that may be the same; with `node`, those that may be the same as this one."""
    return await _duplicates_page(access, page, page_request, node, FormState())


async def _duplicates_page(
    access: AgentAccess,
    page: PageResponse,
    page_request: PageRequest,
    node: UUID | None,
    form: FormState,
) -> HTMLResponse:
    """`form` is a merge that was refused: its error is shown beside the pair, or above all if the pair is not listed."""
    session, scope = access.session, access.scope
    if node is None:
        candidates = await entity_resolution.list_duplicate_candidates(session, scope, page_request)
    else:
        [node] = await resolve_redirects(session, scope, [node])
        pairs = await entity_resolution.list_candidates_of_node(session, scope, node)
        candidates = Page[DuplicatePair](items=pairs, next=None)
    ids = {end.id for pair in candidates.items for end in (pair.node, pair.other)}
    compared = await entity_resolution.load_compared_nodes(session, scope, ids)
    merges_page = await entity_resolution.list_merges(
        session, access.owner_id, access.agent.id, PageRequest(SHOWN_DECISIONS)
    )
    distinct_page = await entity_resolution.list_distinct_pairs(
        session, scope, PageRequest(SHOWN_DECISIONS)
    )
    of_form = {form.text("one"), form.text("other")}
    refused = [
        pair for pair in candidates.items if {str(pair.node.id), str(pair.other.id)} == of_form
    ]
    return await page.answer(
        "graph/duplicates.html",
        status=form.status,
        agent=access.agent,
        comparisons=compare_nodes(candidates.items, compared),
        form=form,
        refused=next(iter(refused), None),
        missing=MISSING,
        next=candidates.next,
        of_node=node,
        looked_at=page_request.limit,
        merges=merges_page.items,
        next_merges=merges_page.next,
        distinct_pairs=distinct_page.items,
        has_more_distinct=distinct_page.next is not None,
        reason_characters=merge_commands.MAX_REASON_CHARS,
    )


@router.get("/distinct-pairs")
async def list_distinct_pairs(
    access: OwnedAgent, page: PageResponse, page_request: PageQuery
) -> HTMLResponse:
    pairs = await entity_resolution.list_distinct_pairs(access.session, access.scope, page_request)
    return await page.answer(
        "graph/distinct.html", agent=access.agent, pairs=pairs.items, next=pairs.next
    )


@router.post("/distinct-pairs")
async def declare_distinct(
    access: OwnedAgent, pair: Annotated[NewDistinctPair, Form()]
) -> Response:
    await distinct_commands.declare_distinct(access, pair)
    return _to_duplicates(access)


@router.post("/distinct-pairs/{pair_id}/forget")
async def forget_distinct(access: OwnedAgent, pair_id: UUID) -> Response:
    await distinct_commands.forget_distinct(access, pair_id)
    return _to_duplicates(access)


@router.get("/merges")
async def list_merges(
    access: OwnedAgent, page: PageResponse, page_request: PageQuery
) -> HTMLResponse:
    merges_page = await entity_resolution.list_merges(
        access.session, access.owner_id, access.agent.id, page_request
    )
    return await page.answer(
        "graph/merges.html", agent=access.agent, merges=merges_page.items, next=merges_page.next
    )


class MergeForm(BaseModel):
    """Two nodes, and which of them remains."""

    one: UUID
    other: UUID
    kept: UUID
    reason: Reason


@router.post("/merges")
async def merge_nodes(
    access: OwnedAgent,
    page: PageResponse,
    page_request: PageQuery,
    form: Annotated[Submitted[MergeForm], submitted(MergeForm)],
    node: UUID | None = None,
) -> Response:
    """The query string is that of the page of duplicates, which is shown again where the two cannot be merged."""
    pair = form.model
    if pair is None:
        return await _duplicates_page(access, page, page_request, node, form)
    merged_id = pair.other if pair.kept == pair.one else pair.one
    try:
        async with access.session.begin_nested():
            await merge_commands.merge_nodes(
                access, NewMerge(kept=pair.kept, merged=merged_id, reason=pair.reason)
            )
    except ProblemError as error:
        refused = form.refused(error, {})
        return await _duplicates_page(access, page, page_request, node, refused)
    return _to_duplicates(access)


@router.post("/merges/{merge_id}/undo")
async def undo_merge(access: OwnedAgent, merge_id: UUID) -> Response:
    await merge_commands.undo_merge(access, merge_id)
    return _to_duplicates(access)


def _to_duplicates(access: AgentAccess) -> Response:
    return RedirectResponse(f"/agents/{access.agent.id}/duplicates", HTTPStatus.SEE_OTHER)
