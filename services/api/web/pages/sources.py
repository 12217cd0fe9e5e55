"""Pages that were read: found again, read with their quotes marked, retracted and restored."""

from enum import StrEnum
from http import HTTPStatus
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Form, Query
from pydantic import BaseModel
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.dependencies import AgentAccess, OwnedAgent
from services.api.commands import retractions
from services.api.commands.retractions import BECAUSE_CHARACTERS, Afterwards, Because, NewRetraction
from services.api.http.dependencies import Page, Paging
from services.api.http.problem_details import NotFoundError
from services.api.queries import provenance
from services.api.web.presenters.provenance import pieces
from services.api.web.rendering import Answering
from shared.schemas.base import Wanted
from shared.schemas.provenance import RetractionView, SourceView

router = APIRouter(prefix="/agents/{agent}/sources")


class Shown(StrEnum):
    ALL = "all"
    BELIEVED = "believed"
    RETRACTED = "retracted"


@router.get("")
async def list_all(
    access: OwnedAgent,
    page: Answering,
    paging: Paging,
    search: Annotated[str, Query(max_length=2_000)] = "",
    shown: Shown = Shown.ALL,
) -> HTMLResponse:
    session, scope = access.session, access.scope
    wanted = None if shown is Shown.ALL else shown is Shown.RETRACTED
    words = search.strip()
    if words:
        found = await provenance.holding(session, scope, words, retracted=wanted)
        sources = Page[SourceView](items=found, next=None)
    else:
        sources = await provenance.sources(session, scope, paging, retracted=wanted)
    ids = [each.id for each in sources.items]
    return await page.answer(
        "sources/list.html",
        agent=access.agent,
        sources=sources.items,
        next=sources.next,
        quotes=await provenance.quotes_of(session, scope, ids),
        search=words,
        shown=shown,
        all_shown=list(Shown),
        is_cut=bool(words) and len(sources.items) == provenance.TOLD_AT_MOST,
        looked_through=provenance.LOOKED_THROUGH,
    )


@router.get("/{source_id}")
async def show(access: OwnedAgent, page: Answering, source_id: UUID) -> HTMLResponse:
    session, scope = access.session, access.scope
    source = await provenance.source(session, scope, source_id)
    if source is None:
        raise NotFoundError("source", source_id)
    marked = await provenance.of_source(session, scope, source_id)
    versions = await provenance.sources(session, scope, Wanted(), url=source.url)
    return await page.answer(
        "sources/one.html",
        agent=access.agent,
        source=source,
        marks=marked,
        pieces=pieces(source.text, marked.items),
        things=len({each.thing_id for each in marked.items}),
        versions=[each for each in versions.items if each.id != source_id],
        retraction=await _retraction(access, source),
        because_characters=BECAUSE_CHARACTERS,
    )


class Disbelief(BaseModel):
    """The form: this version of the page, or all that were read."""

    because: Because
    whole_address: bool = False


@router.post("/{source_id}/retract")
async def retract(
    access: OwnedAgent,
    afterwards: Afterwards,
    source_id: UUID,
    wanted: Annotated[Disbelief, Form()],
) -> Response:
    source = await provenance.source(access.session, access.scope, source_id)
    if source is None:
        raise NotFoundError("source", source_id)
    what = source.url if wanted.whole_address else str(source_id)
    afterwards.work()
    await retractions.retract(access, NewRetraction(source=what, because=wanted.because))
    return _back(access, source_id)


@router.post("/{source_id}/restore/{retraction_id}")
async def restore(
    access: OwnedAgent, afterwards: Afterwards, source_id: UUID, retraction_id: UUID
) -> Response:
    afterwards.work()
    await retractions.restore(access, retraction_id)
    return _back(access, source_id)


def _back(access: AgentAccess, source_id: UUID) -> Response:
    place = f"/agents/{access.agent.id}/sources/{source_id}"
    return RedirectResponse(place, HTTPStatus.SEE_OTHER)


async def _retraction(access: AgentAccess, source: SourceView) -> RetractionView | None:
    """The one that stands, or the last that was undone; of this version alone, or of its address."""
    told = [
        each
        for of in (str(source.id), source.url)
        for each in (
            await provenance.of_agent(
                access.session, access.owner_id, access.agent.id, Wanted(10), source=of
            )
        ).items
        if each.source_id in (None, source.id)
    ]
    standing = [each for each in told if each.restored_at is None]
    newest = sorted(standing or told, key=lambda each: each.created_at, reverse=True)
    if source.retracted_at is None:
        newest = [each for each in newest if each.is_pending or each.restored_at is not None]
    return newest[0] if newest else None
