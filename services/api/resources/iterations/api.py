"""JSON routes of iterations and their phase runs."""

from http import HTTPStatus
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from services.api.auth.dependencies import OwnedAccess, OwnedAgent
from services.api.http.dependencies import Page, PageQuery
from services.api.http.etags import UNCHANGED, etag_response
from services.api.http.problem_details import problems
from services.api.resources.iterations import model, transcripts
from shared.enums import IterationStatus
from shared.schemas.base import IterationDetails, IterationSummary

iterations_router: Final = APIRouter(tags=["iterations"])
interactions_router: Final = APIRouter(tags=["interactions"])

Number = Annotated[int, Path(ge=1, le=2**31 - 1, description="The iteration's number")]


@iterations_router.get("/agents/{agent}/iterations", name="list_of_agent")
async def list_iterations(
    access: OwnedAgent, page_request: PageQuery, status: IterationStatus | None = None
) -> Page[IterationSummary]:
    """Lists iterations, newest first."""
    return await model.list_iterations(access, page_request, status=status)


@iterations_router.get(
    "/agents/{agent}/iterations/{number}",
    name="show_by_number",
    response_model=IterationDetails,
    responses={**UNCHANGED, **problems(HTTPStatus.GONE)},
)
async def show_iteration_by_number(
    access: OwnedAgent, number: Number, request: Request
) -> Response:
    """An iteration by its number."""
    return etag_response(request, await model.get_by_number(access, number))


@iterations_router.get(
    "/iterations/{iteration_id}", name="show", response_model=IterationDetails, responses=UNCHANGED
)
async def show_iteration(access: OwnedAccess, iteration_id: UUID, request: Request) -> Response:
    """An iteration with its plan, steps, and each phase's conversation with the model so far."""
    return etag_response(request, await model.get_iteration(access, iteration_id))


interactions_router.get("/agents/{agent}/interactions", name="list_of_agent")(
    transcripts.list_phase_runs
)
interactions_router.get("/interactions/{interaction_id}", name="show")(transcripts.find_phase_run)
interactions_router.get("/interactions/{interaction_id}/events", name="list_events")(
    transcripts.list_events
)
