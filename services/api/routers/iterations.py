"""Iterations and their phase runs."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from services.api.auth.dependencies import OwnedAccess, OwnedAgent
from services.api.http.dependencies import Page, Paging
from services.api.http.etags import UNCHANGED, etag_response
from services.api.http.problem_details import NotFoundError
from services.api.queries import iterations as iteration_queries
from services.api.queries import transcripts
from shared.enums import IterationStatus, Phase
from shared.schemas.base import InteractionEvent, IterationDetails, IterationView
from shared.schemas.iterations import InteractionDetails, InteractionHead

iterations_router = APIRouter(tags=["iterations"])
interactions_router = APIRouter(tags=["interactions"])


Number = Annotated[int, Path(ge=1, le=2**31 - 1, description="The iteration's number")]


@iterations_router.get("/agents/{agent}/iterations", name="list_of_agent")
async def list_iterations(
    access: OwnedAgent, paging: Paging, status: IterationStatus | None = None
) -> Page[IterationView]:
    """The newest first."""
    return await iteration_queries.list_iterations(
        access.session, access.owner_id, access.agent.id, paging, status=status
    )


@iterations_router.get(
    "/agents/{agent}/iterations/{number}",
    name="show_by_number",
    response_model=IterationDetails,
    responses=UNCHANGED,
)
async def show_iteration_by_number(
    access: OwnedAgent, number: Number, request: Request
) -> Response:
    """The same as by its id."""
    agent = access.agent
    by_number = await iteration_queries.find_by_number(
        access.session, access.owner_id, agent.id, number
    )
    return _response(request, by_number, number)


@iterations_router.get(
    "/iterations/{iteration_id}", name="show", response_model=IterationDetails, responses=UNCHANGED
)
async def show_iteration(access: OwnedAccess, iteration_id: UUID, request: Request) -> Response:
    """The plan, the steps, and every phase's conversation with the model as far as it has come."""
    iteration = await iteration_queries.find_iteration(
        access.session, access.owner_id, iteration_id
    )
    return _response(request, iteration, iteration_id)


def _response(request: Request, iteration: IterationDetails | None, reference: object) -> Response:
    if iteration is None:
        raise NotFoundError("iteration", reference)
    return etag_response(request, iteration)


@interactions_router.get("/agents/{agent}/interactions", name="list_of_agent")
async def list_phase_runs(
    access: OwnedAgent, paging: Paging, phase: Phase | None = None
) -> Page[InteractionHead]:
    """The newest first; of one phase, where it is given."""
    return await transcripts.list_phase_runs(
        access.session, access.owner_id, access.agent.id, paging, phase=phase
    )


@interactions_router.get("/interactions/{interaction_id}", name="show")
async def show_phase_run(access: OwnedAccess, interaction_id: UUID) -> InteractionDetails:
    """What the model was told first; what came then are its events."""
    phase_run = await transcripts.find_phase_run(access.session, access.owner_id, interaction_id)
    if phase_run is None:
        raise NotFoundError("interaction", interaction_id)
    return phase_run


@interactions_router.get("/interactions/{interaction_id}/events", name="list_events")
async def list_phase_run_events(
    access: OwnedAccess, paging: Paging, interaction_id: UUID
) -> Page[InteractionEvent]:
    """The oldest first: each answer with its text and tool calls, each tool's result."""
    events_page = await transcripts.list_events(
        access.session, access.owner_id, interaction_id, paging
    )
    if events_page is None:
        raise NotFoundError("interaction", interaction_id)
    return events_page
