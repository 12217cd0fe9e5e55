"""Provenance: sources and retractions, conclusions and their verification, investigation requests."""

from http import HTTPStatus
from typing import Annotated
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
from services.api.http.dependencies import Page, Paging
from services.api.http.etags import UNCHANGED, etag_response
from services.api.http.idempotency import Idempotent
from services.api.http.problem_details import NotFoundError, problems
from services.api.queries import conclusions, provenance
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph.conclusions import queries as conclusion_queries
from shared.graph.verification import verifier
from shared.graph.verification.verifier import MAX_PAGE_ROWS, PAGE_ROWS, check_page
from shared.schemas.base import ConclusionView
from shared.schemas.conclusions import InvestigationRequestView
from shared.schemas.provenance import (
    RetractionView,
    SourceDetails,
    SourceView,
    VerificationPage,
    VerificationView,
)

sources_router = APIRouter(prefix="/agents/{agent}", tags=["sources"])
verification_router = APIRouter(tags=["verification"])
conclusions_router = APIRouter(prefix="/agents/{agent}", tags=["conclusions"])
investigations_router = APIRouter(prefix="/agents/{agent}", tags=["investigation requests"])


@sources_router.get("/sources")
async def list_sources(
    access: OwnedAgent,
    paging: Paging,
    url: Annotated[
        str | None, Query(max_length=2000, description="Versions of the page at this address only")
    ] = None,
    retracted: Annotated[
        bool | None, Query(description="Those that are retracted, or those that are not, only")
    ] = None,
) -> Page[SourceView]:
    """Those fetched last first, without their text. A page that changed is another source."""
    return await provenance.list_sources(
        access.session, access.scope, paging, url=url, retracted=retracted
    )


@sources_router.get("/sources/{source_id}", response_model=SourceDetails, responses=UNCHANGED)
async def show_source(access: OwnedAgent, source_id: UUID, request: Request) -> Response:
    """With its text, as it was when it was fetched."""
    source = await provenance.find_source(access.session, access.scope, source_id)
    if source is None:
        raise NotFoundError("source", source_id)
    return etag_response(request, source)


@sources_router.get("/retractions")
async def list_retractions(
    access: OwnedAgent,
    paging: Paging,
    standing: Annotated[
        bool | None, Query(description="Those that stand, or those that were undone, only")
    ] = None,
    source: Annotated[
        str | None, Query(min_length=1, description="Of this URL, or of the source of this id")
    ] = None,
) -> Page[RetractionView]:
    """The newest first."""
    return await provenance.list_retractions(
        access.session,
        access.owner_id,
        access.agent.id,
        paging,
        standing=standing,
        source=source,
    )


@sources_router.get(
    "/retractions/{retraction_id}", response_model=RetractionView, responses=UNCHANGED
)
async def show_retraction(access: OwnedAgent, retraction_id: UUID, request: Request) -> Response:
    """How far it has been gone through, and what is in doubt because of it."""
    return etag_response(request, await retraction_commands.get_retraction(access, retraction_id))


@sources_router.post(
    "/retractions",
    status_code=HTTPStatus.CREATED,
    response_model=RetractionView,
    responses=problems(HTTPStatus.CONFLICT),
)
async def retract_source(
    access: OwnedAgent,
    once: Idempotent,
    afterwards: RetractionWakeup,
    body: Annotated[NewRetraction, Body()],
) -> Response:
    """A page counts no more at once; what rests on it is gone through afterwards. Retracted twice, it is retracted once."""
    afterwards.work()

    async def make() -> RetractionView:
        return await retraction_commands.retract_source(access, body)

    return await once.answer(make)


@sources_router.post("/retractions/{retraction_id}/restore")
async def restore_source(
    access: OwnedAgent, afterwards: RetractionWakeup, retraction_id: UUID
) -> RetractionView:
    """The page is believed again, and all is as it was when that has been gone through. Once is enough."""
    afterwards.work()
    return await retraction_commands.restore_source(access, retraction_id)


@verification_router.get("/conclusions/{conclusion_id}/verification")
async def verify_conclusion(access: OwnedSnapshot, conclusion_id: UUID) -> VerificationView:
    """An analysis or advice of any of your agents, down to the bytes of the pages that it rests on."""
    verification = await verifier.verify_conclusion(access.session, access.owner_id, conclusion_id)
    if verification is None:
        raise NotFoundError("conclusion", conclusion_id)
    return verification


@verification_router.get("/agents/{agent}/verification")
async def verify_all(
    access: OwnedAgentSnapshot,
    limit: Annotated[
        int, Query(ge=1, le=MAX_PAGE_ROWS, description="Rows to look at in this page")
    ] = PAGE_ROWS,
    cursor: Annotated[
        str | None, Query(description="`next` of the page before; without it, from the beginning")
    ] = None,
) -> VerificationPage:
    """All that the agent knows: what is broken of the pages, nodes and edges of this page, with all evidence of them.

    Ask for one page after the other until `next` is null.
    """
    return await check_page(access.session, access.scope, cursor=cursor, rows=limit)


@conclusions_router.get("/analyses")
async def list_analyses(access: OwnedAgent, paging: Paging) -> Page[ConclusionView]:
    """The newest first, each with what it cites."""
    return await conclusion_queries.list_conclusions(
        access.session, access.scope, ANALYSIS_TYPE, paging
    )


@conclusions_router.get(
    "/analyses/{analysis_id}", response_model=ConclusionView, responses=UNCHANGED
)
async def show_analysis(access: OwnedAgent, analysis_id: UUID, request: Request) -> Response:
    return etag_response(
        request, await _conclusion_or_404(access, ANALYSIS_TYPE, analysis_id, "analysis")
    )


@conclusions_router.get("/advice")
async def list_advice(access: OwnedAgent, paging: Paging) -> Page[ConclusionView]:
    """The newest first, each with the analyses that it stands on."""
    return await conclusion_queries.list_conclusions(
        access.session, access.scope, ADVICE_TYPE, paging
    )


@conclusions_router.get("/advice/{advice_id}", response_model=ConclusionView, responses=UNCHANGED)
async def show_advice(access: OwnedAgent, advice_id: UUID, request: Request) -> Response:
    return etag_response(
        request, await _conclusion_or_404(access, ADVICE_TYPE, advice_id, "advice")
    )


async def _conclusion_or_404(
    access: AgentAccess, type_name: str, node_id: UUID, noun: str
) -> ConclusionView:
    conclusion = await conclusion_queries.get_conclusion(
        access.session, access.scope, type_name, node_id
    )
    if conclusion is None:
        raise NotFoundError(noun, node_id)
    return conclusion


@investigations_router.get("/investigation-requests")
async def list_investigation_requests(
    access: OwnedAgent,
    paging: Paging,
    is_open: Annotated[
        bool | None, Query(alias="open", description="Those that are open, or are not, only")
    ] = None,
) -> Page[InvestigationRequestView]:
    """The newest first. Open ones stand before the Observer until a query answers them or they have grown old."""
    return await conclusions.list_investigation_requests(
        access.session, access.owner_id, access.agent.id, paging, is_open=is_open
    )
