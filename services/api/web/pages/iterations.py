"""Pages of iterations: list, details, phase run, comparison."""

from datetime import UTC, datetime
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse

from services.api.auth.dependencies import AgentAccess, OwnedAgent
from services.api.http.dependencies import PageQuery
from services.api.http.problem_details import NotFoundError
from services.api.queries import iterations, transcripts, usage
from services.api.routers.iterations import Number
from services.api.web.presenters.iterations import Side, comparison_side, duration, step_rows
from services.api.web.rendering import PageResponse
from shared.enums import IterationStatus
from shared.schemas.base import PageRequest
from shared.schemas.iterations import IterationOutline

router = APIRouter(prefix="/agents/{agent}")

MAX_SUPERSEDED: Final = 20
"""The limit of nodes and of edges."""

IterationNumber = Annotated[int | None, Query(ge=1, le=2**31 - 1)]


@router.get("/iterations")
async def list_iterations(
    access: OwnedAgent,
    page: PageResponse,
    page_request: PageQuery,
    status: IterationStatus | None = None,
) -> HTMLResponse:
    iterations_page = await iterations.list_iterations(
        access.session, access.owner_id, access.agent.id, page_request, status=status
    )
    ids = [row.id for row in iterations_page.items]
    return await page.answer(
        "iterations/list.html",
        agent=access.agent,
        iterations=iterations_page.items,
        sums=await usage.sum_iterations(access.session, ids),
        next=iterations_page.next,
        is_first=page_request.cursor is None,
        ended_as=status,
        statuses=list(IterationStatus),
    )


@router.get("/iterations/{number}")
async def show_iteration(access: OwnedAgent, page: PageResponse, number: Number) -> HTMLResponse:
    iteration, now = await _find_iteration(access, number), datetime.now(UTC)
    newest = await _newest_numbers(access, 1)
    return await page.answer(
        "iterations/one.html",
        agent=access.agent,
        iteration=iteration,
        newest=newest[0],
        lasted=duration(iteration, now),
        steps=step_rows(iteration, now),
    )


@router.get("/iterations/{number}/runs/{interaction_id}")
async def show_run(
    access: OwnedAgent, page: PageResponse, number: Number, interaction_id: UUID
) -> HTMLResponse:
    """Shows the transcript of a phase run; the iteration's page loads its part `transcript` when it is expanded."""
    run = await transcripts.find_phase_run(access.session, access.owner_id, interaction_id)
    answers = await transcripts.list_answers(access.session, access.owner_id, interaction_id)
    head = await iterations.find_head(access.session, access.owner_id, access.agent.id, number)
    if run is None or answers is None or head is None or run.iteration_id != head.id:
        raise NotFoundError("phase run", interaction_id)
    return await page.answer(
        "iterations/run.html", agent=access.agent, iteration=head, run=run, transcript=answers
    )


@router.get("/compare")
async def compare_iterations(
    access: OwnedAgent, page: PageResponse, a: IterationNumber = None, b: IterationNumber = None
) -> HTMLResponse:
    """Compares two iterations; by default the newest two."""
    newest = await _newest_numbers(access, 2)
    numbers = [a or newest[-1], b or newest[0]] if newest else []
    # A single iteration is shown once.
    outlines = [await _find_iteration(access, number) for number in dict.fromkeys(numbers)]
    return await page.answer(
        "iterations/compare.html",
        agent=access.agent,
        sides=[await _side(access, iteration) for iteration in outlines],
        newest=max(newest, default=0),
    )


async def _side(access: AgentAccess, iteration: IterationOutline) -> Side:
    superseded = await iterations.list_superseded(
        access.session, access.owner_id, access.agent.id, iteration.id, limit=MAX_SUPERSEDED
    )
    return comparison_side(iteration, superseded)


async def _newest_numbers(access: AgentAccess, many: int) -> list[int]:
    """Returns the numbers of the newest iterations, newest first."""
    page_request = PageRequest(limit=many)
    iterations_page = await iterations.list_iterations(
        access.session, access.owner_id, access.agent.id, page_request
    )
    return [row.number for row in iterations_page.items]


async def _find_iteration(access: AgentAccess, number: int) -> IterationOutline:
    outline = await iterations.find_outline(
        access.session, access.owner_id, access.agent.id, number
    )
    if outline is None:
        raise NotFoundError("iteration", number)
    return outline
