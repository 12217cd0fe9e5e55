"""Provenance: sources and retractions, conclusions and their verification, investigation requests."""

from http import HTTPStatus
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Body, Query, Request
from starlette.responses import Response

from services.api.auth.dependencies import (
    AgentAccess,
    OwnedAgent,
    OwnedAgentSnapshot,
    OwnedSnapshot,
)
from services.api.commands import retractions as retraction_commands
from services.api.commands.retractions import NewRetraction, RetractionWakeup
from services.api.http.dependencies import Page, PageQuery
from services.api.http.etags import UNCHANGED, etag_response
from services.api.http.idempotency import Idempotent
from services.api.http.problem_details import NotFoundError, problems
from services.api.queries import conclusions, provenance
from services.api.verification import GraphVerifier
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph.conclusions import queries as conclusion_queries
from shared.graph.verification import verifier
from shared.graph.verification.verifier import MAX_PAGE_ROWS, PAGE_ROWS
from shared.schemas.base import ConclusionResponse
from shared.schemas.conclusions import InvestigationRequestResponse
from shared.schemas.provenance import (
    PageCheckResponse,
    RetractionResponse,
    SourceDetails,
    SourceResponse,
    VerificationPage,
    VerificationResponse,
)

ROOT_PATTERN: Final = "^[0-9a-f]{64}$"

sources_router = APIRouter(prefix="/agents/{agent}", tags=["sources"])
verification_router = APIRouter(tags=["verification"])
conclusions_router = APIRouter(prefix="/agents/{agent}", tags=["conclusions"])
investigations_router = APIRouter(prefix="/agents/{agent}", tags=["investigation requests"])


@sources_router.get("/sources")
async def list_sources(
    access: OwnedAgent,
    page_request: PageQuery,
    url: Annotated[
        str | None, Query(max_length=2000, description="Only versions of the page at this address")
    ] = None,
    retracted: Annotated[
        bool | None, Query(description="Only retracted sources (true), or only others (false)")
    ] = None,
) -> Page[SourceResponse]:
    """Lists sources by the time of fetching, newest first, without their text. A changed page is another source."""
    return await provenance.list_sources(
        access.session, access.scope, page_request, url=url, retracted=retracted
    )


@sources_router.get("/checks")
async def list_checks(
    access: OwnedAgent,
    page_request: PageQuery,
    failed: Annotated[
        bool | None, Query(description="Only failed checks (true), or only others (false)")
    ] = None,
) -> Page[PageCheckResponse]:
    """Lists the last checks of the pages and feeds that the agent watches for changes, by address."""
    return await provenance.list_checks(access.session, access.scope, page_request, failed=failed)


@sources_router.get("/sources/{source_id}", response_model=SourceDetails, responses=UNCHANGED)
async def show_source(access: OwnedAgent, source_id: UUID, request: Request) -> Response:
    """A source with its text as fetched."""
    source = await provenance.find_source(access.session, access.scope, source_id)
    if source is None:
        raise NotFoundError("source", source_id)
    return etag_response(request, source)


@sources_router.get("/retractions")
async def list_retractions(
    access: OwnedAgent,
    page_request: PageQuery,
    active: Annotated[
        bool | None, Query(description="Only active ones (true), or only restored ones (false)")
    ] = None,
    source: Annotated[
        str | None, Query(min_length=1, description="Only retractions of this URL or source id")
    ] = None,
) -> Page[RetractionResponse]:
    """Lists retractions, newest first."""
    return await provenance.list_retractions(
        access.session,
        access.owner_id,
        access.agent.id,
        page_request,
        active=active,
        source=source,
    )


@sources_router.get(
    "/retractions/{retraction_id}", response_model=RetractionResponse, responses=UNCHANGED
)
async def show_retraction(access: OwnedAgent, retraction_id: UUID, request: Request) -> Response:
    """A retraction with its progress, and the conclusions in doubt because of it."""
    return etag_response(request, await retraction_commands.get_retraction(access, retraction_id))


@sources_router.post(
    "/retractions",
    status_code=HTTPStatus.CREATED,
    response_model=RetractionResponse,
    responses=problems(HTTPStatus.CONFLICT),
)
async def retract_source(
    access: OwnedAgent,
    once: Idempotent,
    afterwards: RetractionWakeup,
    body: Annotated[NewRetraction, Body()],
) -> Response:
    """Retracts a page. It stops counting at once; the graph is re-evaluated afterwards. Repeated requests count once."""
    afterwards.work()

    async def make() -> RetractionResponse:
        return await retraction_commands.retract_source(access, body)

    return await once.answer(make)


@sources_router.post("/retractions/{retraction_id}/restore")
async def restore_source(
    access: OwnedAgent, afterwards: RetractionWakeup, retraction_id: UUID
) -> RetractionResponse:
    """Undoes a retraction; the graph is re-evaluated afterwards. Repeated requests count once."""
    afterwards.work()
    return await retraction_commands.restore_source(access, retraction_id)


@verification_router.get("/conclusions/{conclusion_id}/verification")
async def verify_conclusion(access: OwnedSnapshot, conclusion_id: UUID) -> VerificationResponse:
    """Verifies an analysis or advice of any of your agents, down to the bytes of its pages."""
    verification = await verifier.verify_conclusion(access.session, access.owner_id, conclusion_id)
    if verification is None:
        raise NotFoundError("conclusion", conclusion_id)
    return verification


@verification_router.get("/agents/{agent}/verification")
async def verify_all(
    access: OwnedAgentSnapshot,
    request: Request,
    limit: Annotated[
        int, Query(ge=1, le=MAX_PAGE_ROWS, description="Number of rows to check in this page")
    ] = PAGE_ROWS,
    cursor: Annotated[
        str | None, Query(description="`next` of the previous page; without it, from the beginning")
    ] = None,
    since: Annotated[
        str | None,
        Query(
            pattern=ROOT_PATTERN,
            description="A root of this graph, as `iteration.completed` and exports carry it: its history must have it. Only"
            " the history, and all rows against it, are checked. Repeat it with each page",
        ),
    ] = None,
) -> VerificationPage:
    """Verifies an agent's graph in pages: its history, all rows against it, then sources, nodes and edges with all their
    evidence. Returns the faults.

    Request pages until `next` is null.
    """
    graph_verifier: GraphVerifier = request.app.state.verifier
    return await graph_verifier.check(
        access.session, access.scope, cursor=cursor, rows=limit, since=since
    )


@conclusions_router.get("/analyses")
async def list_analyses(access: OwnedAgent, page_request: PageQuery) -> Page[ConclusionResponse]:
    """Lists analyses, newest first, with their citations."""
    return await conclusion_queries.list_conclusions(
        access.session, access.scope, ANALYSIS_TYPE, page_request
    )


@conclusions_router.get(
    "/analyses/{analysis_id}", response_model=ConclusionResponse, responses=UNCHANGED
)
async def show_analysis(access: OwnedAgent, analysis_id: UUID, request: Request) -> Response:
    return etag_response(
        request, await _conclusion_or_404(access, ANALYSIS_TYPE, analysis_id, "analysis")
    )


@conclusions_router.get("/advice")
async def list_advice(access: OwnedAgent, page_request: PageQuery) -> Page[ConclusionResponse]:
    """Lists advice, newest first, with the analyses it is based on."""
    return await conclusion_queries.list_conclusions(
        access.session, access.scope, ADVICE_TYPE, page_request
    )


@conclusions_router.get(
    "/advice/{advice_id}", response_model=ConclusionResponse, responses=UNCHANGED
)
async def show_advice(access: OwnedAgent, advice_id: UUID, request: Request) -> Response:
    return etag_response(
        request, await _conclusion_or_404(access, ADVICE_TYPE, advice_id, "advice")
    )


async def _conclusion_or_404(
    access: AgentAccess, type_name: str, node_id: UUID, noun: str
) -> ConclusionResponse:
    conclusion = await conclusion_queries.get_conclusion(
        access.session, access.scope, type_name, node_id
    )
    if conclusion is None:
        raise NotFoundError(noun, node_id)
    return conclusion


@investigations_router.get("/investigation-requests")
async def list_investigation_requests(
    access: OwnedAgent,
    page_request: PageQuery,
    is_open: Annotated[
        bool | None,
        Query(alias="open", description="Only open requests (true), or only others (false)"),
    ] = None,
) -> Page[InvestigationRequestResponse]:
    """Lists investigation requests, newest first. A request is open until a query answers it or finds no
    answer, or it expires.
    """
    return await conclusions.list_investigation_requests(
        access.session, access.owner_id, access.agent.id, page_request, is_open=is_open
    )
