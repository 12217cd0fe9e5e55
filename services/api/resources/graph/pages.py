"""Pages of the graph: explorer, node and edge, and the review of nodes that may be the same."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from http import HTTPStatus
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Form, Query, Request
from pydantic import AfterValidator, BaseModel
from starlette.datastructures import URL
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.dependencies import AgentAccess, OwnedAgent
from services.api.http.dependencies import Page, PageQuery
from services.api.http.problem_details import NotFoundError, ProblemError
from services.api.resources.graph import duplicates, model
from services.api.resources.graph.duplicates import NewDistinctPair, NewMerge, Reason
from services.api.resources.graph.elements import (
    MISSING,
    compare_nodes,
    encode_drawing,
    group_edges,
    list_history,
    property_provenance,
)
from services.api.resources.graph.model import DrawingFilter
from services.api.resources.sources import model as sources
from services.api.web.forms import FormState, Submitted, submitted
from services.api.web.rendering import PAGE_HEADERS, PageResponse
from shared.database.tables import GraphNode
from shared.graph.entity_resolution.redirects import resolve_redirects
from shared.graph.projection import EDGES, NODES
from shared.graph.types import RESERVED_TYPES
from shared.schemas.base import PageRequest
from shared.schemas.graph import DuplicatePair, GraphLayout

router = APIRouter(prefix="/agents/{agent}")


LIMITS: Final = (300, 1_000, 2_000, 5_000)
COLOURED_TYPES: Final = 10
"""Types with a colour of their own, as many as the style sheet has; the others share one."""
SHOWN_DECISIONS: Final = 10
"""Merges and distinct pairs at once, below the duplicates."""
AGE_LIMITS: Final = {1: "day", 7: "week", 31: "month", 92: "quarter"}
"""In days."""


class EntryPoint(StrEnum):
    """Where the graph view starts without a node or a search."""

    NEWEST = "newest"
    CONNECTED = "connected"


@dataclass(frozen=True)
class LayoutRequest:
    """The start and the filters of the graph view, all from the query string."""

    node: UUID | None = None
    depth: Annotated[int, Query(ge=1, le=model.MAX_FOCUS_DEPTH)] = 1
    begin: EntryPoint = EntryPoint.NEWEST
    types: Annotated[tuple[str, ...], Query(alias="type", max_length=100)] = ()
    days: Annotated[int, Query(ge=0, le=36_600, description="0 is any age")] = 0
    search: Annotated[str, Query(max_length=200), AfterValidator(str.strip)] = ""
    limit: Annotated[int, Query(ge=1, le=model.MAX_DRAWN_NODES)] = LIMITS[1]

    @property
    def of(self) -> DrawingFilter:
        since = None if self.days == 0 else datetime.now(UTC) - timedelta(days=self.days)
        return DrawingFilter(self.types, since)


LayoutParams = Annotated[LayoutRequest, Depends()]


@router.get("/graph")
async def show_explorer(
    access: OwnedAgent, page: PageResponse, entry: LayoutParams
) -> HTMLResponse:
    by_type = await model.count_by_type(access)
    return await page.answer(
        "graph/explorer.html",
        agent=access.agent,
        counts=by_type.totals,
        types=sorted(by_type.nodes.items(), key=lambda node: (-node[1], node[0])),
        colours=COLOURED_TYPES,
        max_counted=model.MAX_COUNTED,
        has_review=await duplicates.has_review(access),
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
        if not await model.has_element(access, GraphNode, node_id):
            raise NotFoundError("node", node_id)
    drawn = await model.draw_paths(access, *ids)
    return _json(encode_drawing(drawn.layout, drawn.paths))


def _json(content: bytes) -> Response:
    return Response(content, headers=PAGE_HEADERS, media_type="application/json")


async def _graph_data(access: AgentAccess, entry: LayoutRequest) -> GraphLayout:
    if entry.node is not None:
        node_id = await model.current_id(access, entry.node)
        limit = min(entry.limit, model.MAX_NODES)
        return await model.draw_neighbourhood(access, node_id, depth=entry.depth, limit=limit)
    if entry.search:
        limit = min(entry.limit, model.MAX_SEARCH_NODES)
        return await model.draw_search(access, entry.search, entry.of, limit)
    if entry.begin is EntryPoint.CONNECTED:
        return await model.draw_best_connected(access, entry.of, entry.limit)
    return await model.draw_newest(access, entry.of, entry.limit)


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
    current = await model.current_id(access, node_id)
    if current != node_id:
        return _redirect_to_current(request, node_id, current)
    node = await model.get_node(access, node_id)
    evidence, edges_page = node.evidence, node.edges
    if quotes is not None:
        following = PageRequest(cursor=quotes)
        evidence = await sources.list_evidence(access, NODES, node_id, following)
    if edges is not None:
        edges_page = await model.list_edges(access, PageRequest(cursor=edges), node_id=node_id)
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
    edge_id = await model.find_edge_id(access, type_name, source, target)
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
    current = await model.current_id(access, edge_id)
    if current != edge_id:
        return _redirect_to_current(request, edge_id, current)
    edge = await model.get_edge(access, edge_id)
    evidence = edge.evidence
    if quotes is not None:
        following = PageRequest(cursor=quotes)
        evidence = await sources.list_evidence(access, EDGES, edge_id, following)
    return await page.answer(
        "graph/edge.html",
        agent=access.agent,
        edge=edge,
        evidence=evidence,
        provenance=property_provenance(edge.properties, evidence.items),
        history=list_history(evidence.items),
    )


def _redirect_to_current(request: Request, merged_id: UUID, current_id: UUID) -> Response:
    """Redirects temporarily, because a merge can be undone."""
    path = request.url.path.removesuffix(str(merged_id)) + str(current_id)
    to = URL(path).include_query_params(**request.query_params)
    return RedirectResponse(str(to), HTTPStatus.SEE_OTHER)


class ReviewRequest:
    """What the review lists, all from the query string."""

    def __init__(
        self,
        page_request: PageQuery,
        node: UUID | None = None,
        merges: PageCursor = None,
        distinct: PageCursor = None,
    ) -> None:
        self.candidates = page_request
        self.node = node
        """Only nodes that may be the same as this one."""
        self.merges = PageRequest(SHOWN_DECISIONS, merges)
        self.distinct_pairs = PageRequest(SHOWN_DECISIONS, distinct)


ReviewParams = Annotated[ReviewRequest, Depends()]


@router.get("/duplicates")
async def review_duplicates(
    access: OwnedAgent, page: PageResponse, review: ReviewParams
) -> HTMLResponse:
    """Compares nodes that may be the same, and lists what was decided before: merges and distinct pairs."""
    return await _review_page(access, page, review, FormState())


async def _review_page(
    access: AgentAccess, page: PageResponse, review: ReviewRequest, form: FormState
) -> HTMLResponse:
    """`form` is a merge that was refused: its error is shown beside the pair, or above all if the pair is not listed."""
    node = review.node
    if node is None:
        candidates = await duplicates.list_duplicate_candidates(access, review.candidates)
    else:
        node = await model.current_id(access, node)
        pairs = await duplicates.list_candidates_of_node(access, node)
        candidates = Page[DuplicatePair](items=pairs, next=None)
    ids = {end.id for pair in candidates.items for end in (pair.node, pair.other)}
    compared = await duplicates.load_compared_nodes(access, ids)
    merges_page = await duplicates.list_merges(access, review.merges)
    distinct_page = await duplicates.list_distinct_pairs(access, review.distinct_pairs)
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
        looked_at=review.candidates.limit,
        merges=merges_page.items,
        next_merges=merges_page.next,
        distinct_pairs=distinct_page.items,
        next_distinct=distinct_page.next,
        reason_characters=duplicates.MAX_REASON_CHARS,
    )


@router.post("/distinct-pairs")
async def declare_distinct(
    access: OwnedAgent, pair: Annotated[NewDistinctPair, Form()]
) -> Response:
    await duplicates.declare_distinct(access, pair)
    return _to_review(access)


@router.post("/distinct-pairs/{pair_id}/forget")
async def forget_distinct(access: OwnedAgent, pair_id: UUID) -> Response:
    await duplicates.forget_distinct(access, pair_id)
    return _to_review(access)


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
    review: ReviewParams,
    form: Annotated[Submitted[MergeForm], submitted(MergeForm)],
) -> Response:
    """The query string is that of the review, which is shown again where the two cannot be merged."""
    pair = form.model
    if pair is None:
        return await _review_page(access, page, review, form)
    merged_id = pair.other if pair.kept == pair.one else pair.one
    try:
        async with access.session.savepoint():
            await duplicates.merge_nodes(
                access, NewMerge(kept=pair.kept, merged=merged_id, reason=pair.reason)
            )
    except ProblemError as error:
        return await _review_page(access, page, review, form.refused(error, {}))
    return _to_review(access)


@router.post("/merges/{merge_id}/undo")
async def undo_merge(access: OwnedAgent, merge_id: UUID) -> Response:
    await duplicates.undo_merge(access, merge_id)
    return _to_review(access)


def _to_review(access: AgentAccess) -> Response:
    return RedirectResponse(f"/agents/{access.agent.id}/duplicates", HTTPStatus.SEE_OTHER)
