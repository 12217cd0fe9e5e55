"""Pages of provenance: sources with highlighted quotes, conclusions with their evidence chain."""

from enum import StrEnum
from http import HTTPStatus
from typing import Annotated, Final, Literal
from uuid import UUID

from fastapi import APIRouter, Form, Query
from pydantic import BaseModel
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.dependencies import AgentAccess, OwnedAgent, OwnedAgentSnapshot
from services.api.commands import retractions as retraction_commands
from services.api.commands.retractions import (
    MAX_REASON_CHARS,
    NewRetraction,
    Reason,
    RetractionWakeup,
)
from services.api.http.dependencies import Page, PageQuery
from services.api.http.problem_details import NotFoundError
from services.api.queries import conclusions, provenance
from services.api.web.forms import UNLESS_BLANK
from services.api.web.presenters.provenance import (
    NamedElement,
    SourceFilter,
    build_chain,
    filter_pages,
    group_by_site,
    list_links,
    split_at_quotes,
)
from services.api.web.rendering import PageResponse
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph import labels
from shared.graph.conclusions import queries as conclusion_queries
from shared.graph.conclusions.queries import ConclusionFilter
from shared.graph.retraction import doubts
from shared.graph.verification import verifier
from shared.schemas.base import LARGEST_PAGE, ConclusionResponse, PageRequest
from shared.schemas.provenance import RetractionResponse, SourceResponse
from shared.workflow.iterations import database_time

router = APIRouter(prefix="/agents/{agent}")


SITES_SHOWN: Final = 30
PAGES_SHOWN: Final = 8
"""Of a site, unless it alone is shown."""
MAX_SHOWN: Final = 1_000


@router.get("/sources")
async def list_sources(
    access: OwnedAgent,
    page: PageResponse,
    search: Annotated[str, Query(max_length=2_000)] = "",
    state: SourceFilter = SourceFilter.ALL,
    site: Annotated[str, Query(max_length=300)] = "",
    shown: Annotated[int, Query(ge=1, le=MAX_SHOWN)] = SITES_SHOWN,
) -> HTMLResponse:
    """Pages by site, each with all versions in one row."""
    pages = await provenance.list_pages(access.session, access.scope)
    checks = await provenance.list_checks(access.session, access.scope, PageRequest(LARGEST_PAGE))
    sites = group_by_site(filter_pages(pages, search, state), sum(each.quotes for each in pages))
    if site:
        sites = [each for each in sites if each.name == site]
    return await page.answer(
        "sources/list.html",
        agent=access.agent,
        sites=sites[:shown],
        more=len(sites) - shown,
        shown=shown,
        pages_shown=MAX_SHOWN if site else PAGES_SHOWN,
        failed_checks=[each for each in checks.items if each.error is not None],
        checks={each.url: each for each in checks.items},
        page_count=len(pages),
        match_count=sum(len(each.pages) for each in sites),
        quote_count=sum(each.quotes for each in pages),
        search=search.strip(),
        site=site,
        state=state,
        all_states=list(SourceFilter),
        is_cut=sum(each.versions for each in pages) >= provenance.MAX_LISTED_SOURCES,
        looked_through=provenance.MAX_LISTED_SOURCES,
    )


@router.get("/sources/{source_id}")
async def show_source(
    access: OwnedAgent, page: PageResponse, source_id: UUID, quote: UUID | None = None
) -> HTMLResponse:
    """`quote` is the evidence whose quote is marked."""
    session, scope = access.session, access.scope
    source = await provenance.find_source(session, scope, source_id)
    if source is None:
        raise NotFoundError("source", source_id)
    versions = await provenance.list_sources(session, scope, PageRequest(), url=source.url)
    if page.part == "foreseen":
        all_ids = {source_id, *(version.id for version in versions.items)}
        return await page.answer(
            "sources/one.html",
            agent=access.agent,
            source=source,
            foreseen=await doubts.foresee_retraction(session, scope, {source_id}),
            foreseen_all=await doubts.foresee_retraction(session, scope, all_ids)
            if len(all_ids) > 1
            else None,
        )
    highlights = await provenance.list_quote_highlights(session, scope, source_id)
    return await page.answer(
        "sources/one.html",
        agent=access.agent,
        source=source,
        highlights=highlights,
        chosen={place for place, each in enumerate(highlights.items) if each.evidence_id == quote},
        pieces=split_at_quotes(source.text, highlights.items),
        element_count=len({item.element_id for item in highlights.items}),
        versions=[version for version in versions.items if version.id != source_id],
        retraction=await _latest_retraction(access, source),
        reason_characters=MAX_REASON_CHARS,
        foreseen=None,
        foreseen_all=None,
    )


class RetractionForm(BaseModel):
    """Retracts this version of the page, or all versions."""

    reason: Reason
    whole_address: bool = False


@router.post("/sources/{source_id}/retract")
async def retract_source(
    access: OwnedAgent,
    afterwards: RetractionWakeup,
    source_id: UUID,
    form: Annotated[RetractionForm, Form()],
) -> Response:
    source = await provenance.find_source(access.session, access.scope, source_id)
    if source is None:
        raise NotFoundError("source", source_id)
    reference = source.url if form.whole_address else str(source_id)
    afterwards.work()
    await retraction_commands.retract_source(
        access, NewRetraction(source=reference, reason=form.reason)
    )
    return _to_source(access, source_id)


@router.post("/sources/{source_id}/restore/{retraction_id}")
async def restore_source(
    access: OwnedAgent, afterwards: RetractionWakeup, source_id: UUID, retraction_id: UUID
) -> Response:
    afterwards.work()
    await retraction_commands.restore_source(access, retraction_id)
    return _to_source(access, source_id)


def _to_source(access: AgentAccess, source_id: UUID) -> Response:
    place = f"/agents/{access.agent.id}/sources/{source_id}"
    return RedirectResponse(place, HTTPStatus.SEE_OTHER)


async def _latest_retraction(
    access: AgentAccess, source: SourceResponse
) -> RetractionResponse | None:
    """Returns the active retraction, or else the last one that was undone, of this version or its address."""
    retractions = [
        item
        for reference in (str(source.id), source.url)
        for item in (
            await provenance.list_retractions(
                access.session, access.owner_id, access.agent.id, PageRequest(10), source=reference
            )
        ).items
        if item.source_id in (None, source.id)
    ]
    active = [line for line in retractions if line.restored_at is None]
    newest = sorted(active or retractions, key=lambda item: item.created_at, reverse=True)
    if source.retracted_at is None:
        newest = [row for row in newest if row.is_pending or row.restored_at is not None]
    return newest[0] if newest else None


MAX_SURROUNDED: Final = 2_000
"""Quotes of a chain that are shown with the sentences around them."""


class ConclusionKind(StrEnum):
    ADVICE = "advice"
    ANALYSES = "analyses"


_NODE_TYPES = {ConclusionKind.ADVICE: ADVICE_TYPE, ConclusionKind.ANALYSES: ANALYSIS_TYPE}


_VERDICTS = {
    ConclusionKind.ADVICE: ("BUY", "HOLD", "SELL"),
    ConclusionKind.ANALYSES: ("observation", "pattern"),
}
Verdict = Literal["BUY", "HOLD", "SELL", "observation", "pattern"]
TickBox = Annotated[bool | None, UNLESS_BLANK, Query()]


@router.get("/conclusions")
async def list_conclusions(
    access: OwnedAgent,
    page: PageResponse,
    page_request: PageQuery,
    kind: ConclusionKind | None = None,
    verdict: Annotated[Verdict | None, UNLESS_BLANK, Query()] = None,
    doubted: TickBox = None,
    expired: TickBox = None,
) -> HTMLResponse:
    """Without `kind`: advice, or analyses where there is no advice."""
    page_kind = kind or ConclusionKind.ADVICE
    only = ConclusionFilter(verdict, doubted, expired)
    conclusions_page = await _conclusions_page(access, page_kind, page_request, only)
    if kind is None and not conclusions_page.items:
        page_kind = ConclusionKind.ANALYSES
        conclusions_page = await _conclusions_page(access, page_kind, page_request, only)
    ids = [conclusion.id for conclusion in conclusions_page.items]
    return await page.answer(
        "conclusions/list.html",
        agent=access.agent,
        kind=page_kind,
        verdicts=_VERDICTS[page_kind],
        only=only,
        conclusions=conclusions_page.items,
        basis=await conclusions.count_basis(access.session, access.scope, ids),
        next=conclusions_page.next,
    )


@router.get("/conclusions/{conclusion_id}")
async def show_conclusion(
    access: OwnedAgent, page: PageResponse, conclusion_id: UUID
) -> HTMLResponse:
    """The page loads the chain separately: hashing every source takes longer than reading the conclusion."""
    type_name, conclusion = await _find_conclusion(access, conclusion_id)
    doubts_by_node = await doubts.list_doubts(access.session, [conclusion_id])
    reasons = doubts_by_node.get(conclusion_id, [])
    names = await _name_elements(access, {each for reason in reasons for each in reason.elements})
    basis = await conclusions.count_basis(access.session, access.scope, [conclusion_id])
    return await page.answer(
        "conclusions/one.html",
        agent=access.agent,
        conclusion=conclusion,
        is_advice=type_name == ADVICE_TYPE,
        doubts=reasons,
        doubted_elements=names,
        basis=basis[conclusion_id],
    )


@router.get("/conclusions/{conclusion_id}/chain")
async def show_chain(
    access: OwnedAgentSnapshot, page: PageResponse, conclusion_id: UUID
) -> HTMLResponse:
    """Verifies the conclusion now and shows the chain."""
    verification = await verifier.verify_conclusion(access.session, access.owner_id, conclusion_id)
    if verification is None or verification.agent_id != access.agent.id:
        raise NotFoundError("conclusion", conclusion_id)
    hashes = await provenance.hashes_of_links(
        access.session,
        access.owner_id,
        access.agent.id,
        [link.id for link in list_links(verification)],
    )
    surroundings = await provenance.load_surroundings(
        access.session, access.scope, [link.id for link in verification.evidence[:MAX_SURROUNDED]]
    )
    return await page.answer(
        "conclusions/chain.html",
        agent=access.agent,
        conclusion_id=conclusion_id,
        conclusion=verification.conclusions[0],
        chain=build_chain(verification, hashes, surroundings),
        verified_at=await database_time(access.session),
        is_part=page.part is not None,
    )


async def _name_elements(access: AgentAccess, ids: set[UUID]) -> dict[UUID, NamedElement]:
    nodes = await labels.load_node_labels(access.session, access.scope, ids)
    edges = await labels.load_edge_labels(access.session, access.scope, ids - nodes.keys())
    return {
        **{each: NamedElement("node", label.name) for each, label in nodes.items()},
        **{each: NamedElement("edge", label.name) for each, label in edges.items()},
    }


async def _conclusions_page(
    access: AgentAccess,
    kind: ConclusionKind,
    page_request: PageRequest,
    only: ConclusionFilter,
) -> Page[ConclusionResponse]:
    return await conclusion_queries.list_conclusions(
        access.session, access.scope, _NODE_TYPES[kind], page_request, only
    )


async def _find_conclusion(
    access: AgentAccess, conclusion_id: UUID
) -> tuple[str, ConclusionResponse]:
    for type_name in (ADVICE_TYPE, ANALYSIS_TYPE):
        conclusion = await conclusion_queries.get_conclusion(
            access.session, access.scope, type_name, conclusion_id
        )
        if conclusion is not None:
            return type_name, conclusion
    raise NotFoundError("conclusion", conclusion_id)
