"""Iterations in a row, one in full, a phase run with all that was said in it, and two beside each other."""

from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse

from services.api.auth.dependencies import AgentAccess, OwnedAgent
from services.api.http.dependencies import Paging
from services.api.http.problem_details import NotFoundError
from services.api.queries import iterations, transcripts, usage
from services.api.routers.iterations import Number
from services.api.web.presenters.iterations import compared, lasted, told
from services.api.web.rendering import Answering
from shared.enums import IterationStatus
from shared.schemas.base import Wanted
from shared.schemas.iterations import IterationOutline

router = APIRouter(prefix="/agents/{agent}")

_Compared = Annotated[int | None, Query(ge=1, le=2**31 - 1)]


@router.get("/iterations")
async def list_of_agent(
    access: OwnedAgent, page: Answering, paging: Paging, status: IterationStatus | None = None
) -> HTMLResponse:
    found = await iterations.of_agent(
        access.session, access.owner_id, access.agent.id, paging, status=status
    )
    ids = [each.id for each in found.items]
    return await page.answer(
        "iterations/list.html",
        agent=access.agent,
        iterations=found.items,
        sums=await usage.of_iterations(access.session, ids),
        next=found.next,
        is_first=paging.cursor is None,
        wanted=status,
        statuses=list(IterationStatus),
    )


@router.get("/iterations/{number}")
async def show(access: OwnedAgent, page: Answering, number: Number) -> HTMLResponse:
    found, now = await _numbered(access, number), datetime.now(UTC)
    newest = await _newest(access, 1)
    return await page.answer(
        "iterations/one.html",
        agent=access.agent,
        iteration=found,
        newest=newest[0],
        lasted=lasted(found, now),
        steps=told(found, now),
    )


@router.get("/iterations/{number}/runs/{interaction_id}")
async def show_run(
    access: OwnedAgent, page: Answering, number: Number, interaction_id: UUID
) -> HTMLResponse:
    """What a phase was told and has said; the iteration's page asks for its part `said` when somebody unfolds it."""
    run = await transcripts.find(access.session, access.owner_id, interaction_id)
    said = await transcripts.said(access.session, access.owner_id, interaction_id)
    found = await iterations.head(access.session, access.owner_id, access.agent.id, number)
    if run is None or said is None or found is None or run.iteration_id != found.id:
        raise NotFoundError("phase run", interaction_id)
    return await page.answer(
        "iterations/run.html", agent=access.agent, iteration=found, run=run, said=said
    )


@router.get("/compare")
async def compare(
    access: OwnedAgent, page: Answering, a: _Compared = None, b: _Compared = None
) -> HTMLResponse:
    """Without numbers: the newest two."""
    newest = await _newest(access, 2)
    wanted = [a or newest[-1], b or newest[0]] if newest else []
    # The only one there is stands alone, and not beside itself.
    outlined = [await _numbered(access, number) for number in dict.fromkeys(wanted)]
    return await page.answer(
        "iterations/compare.html",
        agent=access.agent,
        sides=[await compared(access, each) for each in outlined],
        newest=max(newest, default=0),
    )


async def _newest(access: AgentAccess, many: int) -> list[int]:
    """The numbers of the newest iterations, the newest first."""
    wanted = Wanted(limit=many)
    found = await iterations.of_agent(access.session, access.owner_id, access.agent.id, wanted)
    return [each.number for each in found.items]


async def _numbered(access: AgentAccess, number: int) -> IterationOutline:
    found = await iterations.numbered_outlines(
        access.session, access.owner_id, access.agent.id, number
    )
    if found is None:
        raise NotFoundError("iteration", number)
    return found
