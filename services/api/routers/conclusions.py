"""What an agent concluded: analyses, and advice that stands on them."""

from uuid import UUID

from fastapi import APIRouter, Request
from starlette.responses import Response

from services.api.auth.dependencies import AgentAccess, OwnedAgent
from services.api.http.dependencies import Page, Paging
from services.api.http.etags import UNCHANGED, tagged
from services.api.http.problem_details import NotFoundError
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph.conclusions import queries
from shared.schemas.base import ConclusionView

router = APIRouter(prefix="/agents/{agent}", tags=["conclusions"])


@router.get("/analyses")
async def list_analyses(access: OwnedAgent, paging: Paging) -> Page[ConclusionView]:
    """The newest first, each with what it cites."""
    return await queries.page(access.session, access.scope, ANALYSIS_TYPE, paging)


@router.get("/analyses/{analysis_id}", response_model=ConclusionView, responses=UNCHANGED)
async def show_analysis(access: OwnedAgent, analysis_id: UUID, request: Request) -> Response:
    return tagged(request, await _there(access, ANALYSIS_TYPE, analysis_id, "analysis"))


@router.get("/advice")
async def list_advice(access: OwnedAgent, paging: Paging) -> Page[ConclusionView]:
    """The newest first, each with the analyses that it stands on."""
    return await queries.page(access.session, access.scope, ADVICE_TYPE, paging)


@router.get("/advice/{advice_id}", response_model=ConclusionView, responses=UNCHANGED)
async def show_advice(access: OwnedAgent, advice_id: UUID, request: Request) -> Response:
    return tagged(request, await _there(access, ADVICE_TYPE, advice_id, "advice"))


async def _there(access: AgentAccess, type_name: str, node_id: UUID, what: str) -> ConclusionView:
    found = await queries.find(access.session, access.scope, type_name, node_id)
    if found is None:
        raise NotFoundError(what, node_id)
    return found
