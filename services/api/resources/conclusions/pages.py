"""Pages of conclusions, with their evidence chain."""

from enum import StrEnum
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import AfterValidator, Field
from starlette.responses import HTMLResponse

from services.api.auth.dependencies import OwnedAgent, OwnedAgentSnapshot
from services.api.http.dependencies import PageQuery
from services.api.http.problem_details import NotFoundError
from services.api.resources.conclusions import model
from services.api.resources.conclusions.api import verify_conclusion
from services.api.resources.conclusions.chain import NamedElement, build_chain, list_links
from services.api.resources.sources import model as sources
from services.api.web.forms import UNLESS_BLANK
from services.api.web.rendering import PageResponse
from shared.agents.fields import MAX_WORD_CHARS
from shared.database.text import refuse_nul
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph import labels
from shared.graph.conclusions.queries import ConclusionFilter, list_conclusions
from shared.graph.retraction import doubts
from shared.workflow.iterations import database_time

router = APIRouter(prefix="/agents/{agent}")

MAX_SURROUNDED: Final = 2_000
"""Quotes of a chain that are shown with the sentences around them."""


class ConclusionKind(StrEnum):
    ADVICE = "advice"
    ANALYSES = "analyses"


_NODE_TYPES: Final = {ConclusionKind.ADVICE: ADVICE_TYPE, ConclusionKind.ANALYSES: ANALYSIS_TYPE}
_ANALYSIS_TYPES: Final = ("observation", "pattern")
Verdict = Annotated[str, Field(max_length=MAX_WORD_CHARS), AfterValidator(refuse_nul)]
TickBox = Annotated[bool | None, UNLESS_BLANK, Query()]


@router.get("/conclusions")
async def show_conclusions(
    access: OwnedAgent,
    page: PageResponse,
    page_request: PageQuery,
    kind: ConclusionKind | None = None,
    verdict: Annotated[Verdict | None, UNLESS_BLANK, Query()] = None,
    doubted: TickBox = None,
    expired: TickBox = None,
) -> HTMLResponse:
    """Without `kind`: advice, or analyses where there is no advice."""
    only = ConclusionFilter(verdict, doubted, expired)
    for page_kind in (kind,) if kind else ConclusionKind:
        listed = await list_conclusions(
            access.session, access.scope, _NODE_TYPES[page_kind], page_request, only
        )
        if listed.items:
            break
    ids = [conclusion.id for conclusion in listed.items]
    return await page.answer(
        "conclusions/list.html",
        agent=access.agent,
        kind=page_kind,
        verdicts=_ANALYSIS_TYPES
        if page_kind is ConclusionKind.ANALYSES
        else await model.list_actions(access),
        only=only,
        conclusions=listed.items,
        basis=await model.count_basis(access, ids),
        next=listed.next,
    )


@router.get("/conclusions/{conclusion_id}")
async def show_conclusion(
    access: OwnedAgent, page: PageResponse, conclusion_id: UUID
) -> HTMLResponse:
    """The page loads the chain separately: hashing every source takes longer than reading the conclusion."""
    type_name = ADVICE_TYPE
    try:
        conclusion = await model.get_conclusion(access, type_name, conclusion_id)
    except NotFoundError:
        type_name = ANALYSIS_TYPE
        conclusion = await model.get_conclusion(access, type_name, conclusion_id)
    by_node = await doubts.list_doubts(access.session, [conclusion_id])
    reasons = by_node.get(conclusion_id, [])
    doubted = {each for reason in reasons for each in reason.elements}
    nodes = await labels.load_node_labels(access.session, access.scope, doubted)
    edges = await labels.load_edge_labels(access.session, access.scope, doubted - nodes.keys())
    return await page.answer(
        "conclusions/one.html",
        agent=access.agent,
        conclusion=conclusion,
        is_advice=type_name == ADVICE_TYPE,
        doubts=reasons,
        doubted_elements={
            **{each: NamedElement("node", label.name) for each, label in nodes.items()},
            **{each: NamedElement("edge", label.name) for each, label in edges.items()},
        },
        basis=(await model.count_basis(access, [conclusion_id]))[conclusion_id],
    )


@router.get("/conclusions/{conclusion_id}/chain")
async def show_chain(
    access: OwnedAgentSnapshot, page: PageResponse, conclusion_id: UUID
) -> HTMLResponse:
    """Verifies the conclusion now and shows the chain."""
    verification = await verify_conclusion(access, conclusion_id)
    if verification.agent_id != access.agent.id:
        raise NotFoundError("conclusion", conclusion_id)
    hashes = await sources.hashes_of_links(access, [link.id for link in list_links(verification)])
    surroundings = await sources.load_surroundings(
        access, [link.id for link in verification.evidence[:MAX_SURROUNDED]]
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
