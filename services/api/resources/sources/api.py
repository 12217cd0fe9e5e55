"""JSON routes of sources and retractions."""

from http import HTTPStatus
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Body, Request
from starlette.responses import Response

from services.api.auth.dependencies import OwnedAgent
from services.api.http.etags import UNCHANGED, etag_response
from services.api.http.idempotency import Idempotent
from services.api.http.problem_details import problems
from services.api.resources.sources import model, retractions
from services.api.resources.sources.retractions import NewRetraction, RetractionWakeup
from shared.schemas.provenance import RetractionResponse, SourceDetails

router: Final = APIRouter(prefix="/agents/{agent}", tags=["sources"])

router.get("/sources")(model.list_sources)
router.get("/checks")(model.list_checks)
router.get("/retractions")(model.list_retractions)
router.post("/retractions/preview")(retractions.preview_retraction)


@router.get("/sources/{source_id}", response_model=SourceDetails, responses=UNCHANGED)
async def show_source(access: OwnedAgent, source_id: UUID, request: Request) -> Response:
    """A source with its text as fetched."""
    return etag_response(request, await model.get_source(access, source_id))


@router.get("/retractions/{retraction_id}", response_model=RetractionResponse, responses=UNCHANGED)
async def show_retraction(access: OwnedAgent, retraction_id: UUID, request: Request) -> Response:
    """A retraction with its progress, and the conclusions in doubt because of it."""
    return etag_response(request, await model.get_retraction(access, retraction_id))


@router.post(
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
    """Retracts a page, with what is read there later, or bars a site and retracts what was read there.

    It stops counting at once; the graph is re-evaluated afterwards. Repeated requests count once.
    """
    return await once.answer(lambda: retractions.retract_source(access, afterwards, body))


router.post("/retractions/{retraction_id}/restore")(retractions.restore_source)
