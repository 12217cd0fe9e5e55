"""Nodes that may be one thing: looked at side by side, made one, and made two again."""

from http import HTTPStatus
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Form
from pydantic import BaseModel
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api import merging
from services.api.access import AgentAccess, OwnedAgent
from services.api.merging import NewMerge, Reason
from services.api.pages import Paging
from services.api.window.rendering import Answering
from shared.graph import pairs
from shared.store.reading import merges
from shared.store.reading.page import Wanted

router = APIRouter(prefix="/agents/{agent}")


@router.get("/doubles")
async def list_doubles(access: OwnedAgent, page: Answering, paging: Paging) -> HTMLResponse:
    found = await pairs.page(access.session, access.scope, paging)
    made = await merges.page(access.session, access.owner_id, access.agent.id, Wanted())
    return await page.answer(
        "graph/doubles.html",
        agent=access.agent,
        doubles=found.items,
        next=found.next,
        looked_at=paging.limit,
        merges=made.items,
        next_merges=made.next,
        reason_characters=merging.REASON_CHARACTERS,
    )


@router.get("/merges")
async def list_merges(access: OwnedAgent, page: Answering, paging: Paging) -> HTMLResponse:
    made = await merges.page(access.session, access.owner_id, access.agent.id, paging)
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
    await merging.merge(access, NewMerge(kept=pair.kept, gone=gone, reason=pair.reason))
    return _back(access)


@router.post("/merges/{merge_id}/undo")
async def undo(access: OwnedAgent, merge_id: UUID) -> Response:
    await merging.undo(access, merge_id)
    return _back(access)


def _back(access: AgentAccess) -> Response:
    return RedirectResponse(f"/agents/{access.agent.id}/doubles", HTTPStatus.SEE_OTHER)
