"""Iterations, and all that happened in one."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from services.api.auth.dependencies import Owned, OwnedAgent
from services.api.http.dependencies import Page, Paging
from services.api.http.etags import UNCHANGED, tagged
from services.api.http.problem_details import NotFoundError
from services.api.queries import iterations
from shared.enums import IterationStatus
from shared.schemas.base import IterationDetails, IterationView

router = APIRouter(tags=["iterations"])

Number = Annotated[int, Path(ge=1, le=2**31 - 1, description="The iteration's number")]


@router.get("/agents/{agent}/iterations")
async def list_of_agent(
    access: OwnedAgent, paging: Paging, status: IterationStatus | None = None
) -> Page[IterationView]:
    """The newest first."""
    return await iterations.of_agent(
        access.session, access.owner_id, access.agent.id, paging, status=status
    )


@router.get(
    "/agents/{agent}/iterations/{number}", response_model=IterationDetails, responses=UNCHANGED
)
async def show_by_number(access: OwnedAgent, number: Number, request: Request) -> Response:
    """The same as by its id."""
    agent = access.agent
    found = await iterations.numbered(access.session, access.owner_id, agent.id, number)
    return _told(request, found, number)


@router.get("/iterations/{iteration_id}", response_model=IterationDetails, responses=UNCHANGED)
async def show(access: Owned, iteration_id: UUID, request: Request) -> Response:
    """The plan, the steps, and every phase's conversation with the model as far as it has come."""
    found = await iterations.find(access.session, access.owner_id, iteration_id)
    return _told(request, found, iteration_id)


def _told(request: Request, found: IterationDetails | None, reference: object) -> Response:
    if found is None:
        raise NotFoundError("iteration", reference)
    return tagged(request, found)
