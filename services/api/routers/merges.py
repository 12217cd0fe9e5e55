"""Doubles: which nodes may be one, which were made one, and made two again."""

from http import HTTPStatus
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Body
from starlette.responses import Response

from services.api.auth.dependencies import OwnedAgent
from services.api.commands import merges
from services.api.commands.merges import NewMerge
from services.api.http.dependencies import Page, Paging
from services.api.http.idempotency import AskedOnce
from services.api.http.problem_details import problems
from services.api.queries import entity_resolution
from shared.schemas.graph import DoubleView, MergeView

router = APIRouter(prefix="/agents/{agent}", tags=["graph"])


@router.get("/doubles")
async def list_doubles(access: OwnedAgent, paging: Paging) -> Page[DoubleView]:
    """Nodes that may be one thing, among those touched last first; a page looks at `limit` nodes, and may find none."""
    return await entity_resolution.pairs_page(access.session, access.scope, paging)


@router.get("/merges")
async def list_merges(access: OwnedAgent, paging: Paging) -> Page[MergeView]:
    """The newest first, undone ones too."""
    return await entity_resolution.merges_page(
        access.session, access.owner_id, access.agent.id, paging
    )


@router.post(
    "/merges",
    status_code=HTTPStatus.CREATED,
    response_model=MergeView,
    responses=problems(HTTPStatus.CONFLICT),
)
async def make_merge(
    access: OwnedAgent, once: AskedOnce, wanted: Annotated[NewMerge, Body()]
) -> Response:
    """One node gets the names, evidence and edges of the other, which is found under its id from then on."""

    async def make() -> MergeView:
        return await merges.merge(access, wanted)

    return await once.answer(make)


@router.get("/merges/{merge_id}")
async def show_merge(access: OwnedAgent, merge_id: UUID) -> MergeView:
    return await merges.found(access, merge_id)


@router.post("/merges/{merge_id}/undo", responses=problems(HTTPStatus.CONFLICT))
async def undo_merge(access: OwnedAgent, merge_id: UUID) -> MergeView:
    """Both are there again as they were; what was learned since stays with the one that was kept. Twice is once."""
    return await merges.undo(access, merge_id)
