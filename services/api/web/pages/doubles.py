"""Nodes that may be one thing: looked at side by side, made one, and made two again."""

from http import HTTPStatus
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Form
from pydantic import BaseModel
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.dependencies import AgentAccess, OwnedAgent
from services.api.commands import merges
from services.api.commands.merges import NewMerge, Reason
from services.api.http.dependencies import Paging
from services.api.queries import entity_resolution
from services.api.web.rendering import Answering
from shared.schemas.base import Wanted

router = APIRouter(prefix="/agents/{agent}")


@router.get("/doubles")
async def list_doubles(access: OwnedAgent, page: Answering, paging: Paging) -> HTMLResponse:
    found = await entity_resolution.pairs_page(access.session, access.scope, paging)
    made = await entity_resolution.merges_page(
        access.session, access.owner_id, access.agent.id, Wanted()
    )
    return await page.answer(
        "graph/doubles.html",
        agent=access.agent,
        doubles=found.items,
        next=found.next,
        looked_at=paging.limit,
        merges=made.items,
        next_merges=made.next,
        reason_characters=merges.REASON_CHARACTERS,
    )


@router.get("/merges")
async def list_merges(access: OwnedAgent, page: Answering, paging: Paging) -> HTMLResponse:
    made = await entity_resolution.merges_page(
        access.session, access.owner_id, access.agent.id, paging
    )
    return await page.answer(
        "graph/merges.html", agent=access.agent, merges=made.items, next=made.next
    )


class Pair(BaseModel):
    """The form: two nodes, and which of them is kept."""

    one: UUID
    other: UUID
    kept: UUID
    reason: Reason


@router.post("/merges")
async def merge(access: OwnedAgent, pair: Annotated[Pair, Form()]) -> Response:
    gone = pair.other if pair.kept == pair.one else pair.one
    await merges.merge(access, NewMerge(kept=pair.kept, gone=gone, reason=pair.reason))
    return _back(access)


@router.post("/merges/{merge_id}/undo")
async def undo(access: OwnedAgent, merge_id: UUID) -> Response:
    await merges.undo(access, merge_id)
    return _back(access)


def _back(access: AgentAccess) -> Response:
    return RedirectResponse(f"/agents/{access.agent.id}/doubles", HTTPStatus.SEE_OTHER)
