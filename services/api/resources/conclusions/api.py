"""JSON routes of analyses and advice, their verification, and investigation requests."""

from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from services.api.auth.dependencies import OwnedAgent, OwnedAgentSnapshot, OwnedSnapshot
from services.api.http.dependencies import Page, PageQuery
from services.api.http.etags import UNCHANGED, etag_response
from services.api.http.problem_details import NotFoundError
from services.api.resources.conclusions import model
from services.api.verification import GraphVerifier
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph.conclusions.queries import list_conclusions
from shared.graph.verification import report
from shared.graph.verification.verifier import MAX_PAGE_ROWS, PAGE_ROWS
from shared.schemas.base import ConclusionResponse
from shared.schemas.conclusions import InvestigationRequestResponse
from shared.schemas.provenance import VerificationPage, VerificationResponse

ROOT_PATTERN: Final = "^[0-9a-f]{64}$"

verification_router: Final = APIRouter(tags=["verification"])
conclusions_router: Final = APIRouter(prefix="/agents/{agent}", tags=["conclusions"])
investigations_router: Final = APIRouter(prefix="/agents/{agent}", tags=["investigation requests"])


@verification_router.get("/conclusions/{conclusion_id}/verification")
async def verify_conclusion(access: OwnedSnapshot, conclusion_id: UUID) -> VerificationResponse:
    """Verifies an analysis or advice of any of your agents, down to the bytes of its pages."""
    verification = await report.verify_conclusion(access.session, access.owner_id, conclusion_id)
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
    return await list_conclusions(access.session, access.scope, ANALYSIS_TYPE, page_request)


@conclusions_router.get(
    "/analyses/{analysis_id}", response_model=ConclusionResponse, responses=UNCHANGED
)
async def show_analysis(access: OwnedAgent, analysis_id: UUID, request: Request) -> Response:
    found = await model.get_conclusion(access, ANALYSIS_TYPE, analysis_id, "analysis")
    return etag_response(request, found)


@conclusions_router.get("/advice")
async def list_advice(access: OwnedAgent, page_request: PageQuery) -> Page[ConclusionResponse]:
    """Lists advice, newest first, with the analyses it is based on."""
    return await list_conclusions(access.session, access.scope, ADVICE_TYPE, page_request)


@conclusions_router.get(
    "/advice/{advice_id}", response_model=ConclusionResponse, responses=UNCHANGED
)
async def show_advice(access: OwnedAgent, advice_id: UUID, request: Request) -> Response:
    found = await model.get_conclusion(access, ADVICE_TYPE, advice_id, "advice")
    return etag_response(request, found)


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
    return await model.list_investigation_requests(access, page_request, is_open=is_open)
