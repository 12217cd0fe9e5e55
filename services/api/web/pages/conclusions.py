"""Advice and analyses: all of an agent, and one with the chain from it to the pages that it rests on."""

from enum import StrEnum
from uuid import UUID

from fastapi import APIRouter
from starlette.responses import HTMLResponse

from services.api.auth.dependencies import AgentAccess, OwnedAgent, OwnedAgentSnapshot
from services.api.http.dependencies import Page, Paging
from services.api.http.problem_details import NotFoundError
from services.api.queries import provenance
from services.api.web.presenters.provenance import chain_of, links_of
from services.api.web.rendering import Answering
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph.conclusions import queries
from shared.graph.retraction import doubts
from shared.graph.verification import verifier
from shared.schemas.base import ConclusionView, Wanted
from shared.workflow.iterations import clock

router = APIRouter(prefix="/agents/{agent}/conclusions")


class Kind(StrEnum):
    ADVICE = "advice"
    ANALYSES = "analyses"


_TYPES = {Kind.ADVICE: ADVICE_TYPE, Kind.ANALYSES: ANALYSIS_TYPE}


@router.get("")
async def list_all(
    access: OwnedAgent, page: Answering, paging: Paging, kind: Kind | None = None
) -> HTMLResponse:
    """Where it is not said of which kind: advice, and analyses as long as nothing was advised."""
    shown = kind or Kind.ADVICE
    found = await _page(access, shown, paging)
    if kind is None and not found.items:
        shown = Kind.ANALYSES
        found = await _page(access, shown, paging)
    return await page.answer(
        "conclusions/list.html",
        agent=access.agent,
        kind=shown,
        conclusions=found.items,
        next=found.next,
    )


@router.get("/{conclusion_id}")
async def show(access: OwnedAgent, page: Answering, conclusion_id: UUID) -> HTMLResponse:
    """Its chain is asked for by the page: to hash every page that it rests on takes longer than to read it."""
    type_name, found = await _found(access, conclusion_id)
    doubted = await doubts.of_each(access.session, [conclusion_id])
    return await page.answer(
        "conclusions/one.html",
        agent=access.agent,
        conclusion=found,
        is_advice=type_name == ADVICE_TYPE,
        doubts=doubted.get(conclusion_id, []),
    )


@router.get("/{conclusion_id}/chain")
async def show_chain(
    access: OwnedAgentSnapshot, page: Answering, conclusion_id: UUID
) -> HTMLResponse:
    """Verified now."""
    found = await verifier.verification(access.session, access.owner_id, conclusion_id)
    if found is None or found.agent_id != access.agent.id:
        raise NotFoundError("conclusion", conclusion_id)
    known = await provenance.of_links(
        access.session, access.owner_id, access.agent.id, [link.id for link in links_of(found)]
    )
    return await page.answer(
        "conclusions/chain.html",
        agent=access.agent,
        conclusion_id=conclusion_id,
        chain=chain_of(found, known),
        verified_at=await clock(access.session),
    )


async def _page(access: AgentAccess, kind: Kind, wanted: Wanted) -> Page[ConclusionView]:
    return await queries.page(access.session, access.scope, _TYPES[kind], wanted)


async def _found(access: AgentAccess, conclusion_id: UUID) -> tuple[str, ConclusionView]:
    for type_name in (ADVICE_TYPE, ANALYSIS_TYPE):
        found = await queries.find(access.session, access.scope, type_name, conclusion_id)
        if found is not None:
            return type_name, found
    raise NotFoundError("conclusion", conclusion_id)
