"""Iterations and their phase runs."""

from http import HTTPStatus
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from services.api.auth.dependencies import AgentAccess, OwnedAccess, OwnedAgent
from services.api.http.dependencies import Page, PageQuery
from services.api.http.etags import UNCHANGED, etag_response
from services.api.http.problem_details import GoneError, NotFoundError, ProblemError, problems
from services.api.queries import iterations as iteration_queries
from services.api.queries import retention, transcripts
from shared.enums import IterationStatus, Phase, RetentionKind
from shared.schemas.base import InteractionEvent, IterationDetails, IterationSummary
from shared.schemas.iterations import InteractionDetails, InteractionHead

iterations_router = APIRouter(tags=["iterations"])
interactions_router = APIRouter(tags=["interactions"])


Number = Annotated[int, Path(ge=1, le=2**31 - 1, description="The iteration's number")]


@iterations_router.get("/agents/{agent}/iterations", name="list_of_agent")
async def list_iterations(
    access: OwnedAgent, page_request: PageQuery, status: IterationStatus | None = None
) -> Page[IterationSummary]:
    """Lists iterations, newest first."""
    return await iteration_queries.list_iterations(
        access.session, access.owner_id, access.agent.id, page_request, status=status
    )


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
    agent = access.agent
    by_number = await iteration_queries.find_by_number(
        access.session, access.owner_id, agent.id, number
    )
    if by_number is None:
        raise await missing_iteration(access, number)
    return etag_response(request, by_number)


async def missing_iteration(access: AgentAccess, number: int) -> ProblemError:
    """Returns the error of an iteration that the agent does not have: whether it was deleted because of its age."""
    session = access.session
    if not await retention.is_pruned(session, access.agent.id, number):
        return NotFoundError("iteration", number)
    days = await retention.days_of(session, RetentionKind.ITERATIONS)
    limit = "" if days is None else f" {days:g} days after they have ended"
    if await retention.is_limited_in_size(session, RetentionKind.ITERATIONS):
        limit += f"{' or' if limit else ''} when all of them together are too large"
    return GoneError(
        "iteration",
        f"Iteration {number} was deleted because of its age: the oldest are deleted{limit}. What it wrote to the graph is"
        " kept, and what it cost is in the costs of its day.",
    )


@iterations_router.get(
    "/iterations/{iteration_id}", name="show", response_model=IterationDetails, responses=UNCHANGED
)
async def show_iteration(access: OwnedAccess, iteration_id: UUID, request: Request) -> Response:
    """An iteration with its plan, steps, and each phase's conversation with the model so far."""
    iteration = await iteration_queries.find_iteration(
        access.session, access.owner_id, iteration_id
    )
    if iteration is None:
        raise NotFoundError("iteration", iteration_id)
    return etag_response(request, iteration)


@interactions_router.get("/agents/{agent}/interactions", name="list_of_agent")
async def list_phase_runs(
    access: OwnedAgent, page_request: PageQuery, phase: Phase | None = None
) -> Page[InteractionHead]:
    """Lists phase runs, newest first; optionally of one phase."""
    return await transcripts.list_phase_runs(
        access.session, access.owner_id, access.agent.id, page_request, phase=phase
    )


@interactions_router.get("/interactions/{interaction_id}", name="show")
async def show_phase_run(access: OwnedAccess, interaction_id: UUID) -> InteractionDetails:
    """A phase run with its first messages; the later ones are its events."""
    phase_run = await transcripts.find_phase_run(access.session, access.owner_id, interaction_id)
    if phase_run is None:
        raise NotFoundError("interaction", interaction_id)
    return phase_run


@interactions_router.get("/interactions/{interaction_id}/events", name="list_events")
async def list_phase_run_events(
    access: OwnedAccess, page_request: PageQuery, interaction_id: UUID
) -> Page[InteractionEvent]:
    """Lists events, oldest first: answers with text and tool calls, and tool results."""
    events_page = await transcripts.list_events(
        access.session, access.owner_id, interaction_id, page_request
    )
    if events_page is None:
        raise NotFoundError("interaction", interaction_id)
    return events_page
