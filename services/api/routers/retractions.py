"""Pages that are not believed: retracted with a reason, and restored."""

from http import HTTPStatus
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Body, Query, Request
from starlette.responses import Response

from services.api.auth.dependencies import OwnedAgent
from services.api.commands import retractions
from services.api.commands.retractions import Afterwards, NewRetraction
from services.api.http.dependencies import Page, Paging
from services.api.http.etags import UNCHANGED, tagged
from services.api.http.idempotency import AskedOnce
from services.api.http.problem_details import problems
from services.api.queries import provenance as reading
from shared.schemas.provenance import RetractionView

router = APIRouter(prefix="/agents/{agent}/retractions", tags=["sources"])


@router.get("")
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
    return await reading.of_agent(
        access.session,
        access.owner_id,
        access.agent.id,
        paging,
        standing=standing,
        source=source,
    )


@router.get("/{retraction_id}", response_model=RetractionView, responses=UNCHANGED)
async def show_retraction(access: OwnedAgent, retraction_id: UUID, request: Request) -> Response:
    """How far it has been gone through, and what is in doubt because of it."""
    return tagged(request, await retractions.found(access, retraction_id))


@router.post(
    "",
    status_code=HTTPStatus.CREATED,
    response_model=RetractionView,
    responses=problems(HTTPStatus.CONFLICT),
)
async def retract_source(
    access: OwnedAgent,
    once: AskedOnce,
    afterwards: Afterwards,
    wanted: Annotated[NewRetraction, Body()],
) -> Response:
    """A page counts no more at once; what rests on it is gone through afterwards. Retracted twice, it is retracted once."""
    afterwards.work()

    async def make() -> RetractionView:
        return await retractions.retract(access, wanted)

    return await once.answer(make)


@router.post("/{retraction_id}/restore")
async def restore_source(
    access: OwnedAgent, afterwards: Afterwards, retraction_id: UUID
) -> RetractionView:
    """The page is believed again, and all is as it was when that has been gone through. Once is enough."""
    afterwards.work()
    return await retractions.restore(access, retraction_id)
