"""The newest conclusions of an agent, the pages that they rest on, and its investigation requests."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Subquery,
    and_,
    bindparam,
    case,
    func,
    literal_column,
    not_,
    or_,
    select,
    text,
    true,
    union_all,
)

from services.api.auth.dependencies import AgentAccess
from services.api.http.problem_details import NotFoundError
from services.api.reading import columns_of, read_page
from shared.database.pagination import Keyset
from shared.database.statements import CompiledStatement
from shared.database.tables import InvestigationRequest
from shared.domains import site_of
from shared.enums import ADVICE_TYPE, PositionState, RequestState
from shared.graph.conclusions.citations import without_citations
from shared.graph.conclusions.queries import VERDICT_PROPERTIES
from shared.graph.conclusions.queries import get_conclusion as find_conclusion
from shared.graph.conclusions.rules import PROOF
from shared.graph.scope import OWNED_AGENT_ID, OWNED_AGENT_ID_SQL
from shared.schemas.base import ConclusionResponse, Page, PageRequest, ResponseModel
from shared.schemas.conclusions import InvestigationRequestResponse


class LatestConclusion(ResponseModel):
    """`word` is the verdict: `observation` or `pattern` of an analysis, the action of advice."""

    id: UUID
    word: str
    name: str
    summary: str
    updated_at: datetime
    doubted_since: datetime | None
    ended: str | None = None
    """`replaced` or `withdrawn`, of advice."""


async def get_conclusion(
    access: AgentAccess, type_name: str, node_id: UUID, noun: str = "conclusion"
) -> ConclusionResponse:
    """Raises NotFoundError."""
    conclusion = await find_conclusion(access.session, access.scope, type_name, node_id)
    if conclusion is None:
        raise NotFoundError(noun, node_id)
    return conclusion


async def newest_conclusions(access: AgentAccess, limit: int) -> list[LatestConclusion]:
    """Returns the newest advice and analyses."""
    rows = await _LATEST.rows(access.session, {**access.scope.sql_params, "most": limit})
    newest = [LatestConclusion.model_validate(row) for row in rows]
    return [each.model_copy(update={"summary": without_citations(each.summary)}) for each in newest]


async def list_actions(access: AgentAccess) -> list[str]:
    """Returns the agent's words for actions, and those of its advice, which can be earlier ones."""
    rows = await _ACTIONS.rows(access.session, access.scope.sql_params)
    return [row.action for row in rows]


_ACTIONS: Final = CompiledStatement(f"""
select jsonb_object_keys(actions) as action from agents where id = {OWNED_AGENT_ID_SQL}
union select properties ->> 'action' from graph_nodes
where agent_id = {OWNED_AGENT_ID_SQL} and type = '{ADVICE_TYPE}'
order by 1
""")
_VERDICTS_SQL: Final = ", ".join(
    f"('{kind}', '{name}')" for kind, name in VERDICT_PROPERTIES.items()
)
_LATEST: Final = CompiledStatement(f"""
select newest.id, properties ->> kind.verdict as word, name, properties ->> 'summary' as summary, updated_at,
  (select min(since) from doubts where conclusion_id = newest.id and resolved_at is null) as doubted_since,
  (select case when replaced_by is null then '{PositionState.WITHDRAWN}' else '{PositionState.REPLACED}' end
   from positions where advice_id = newest.id and ended_at is not null) as ended
from (values {_VERDICTS_SQL}) as kind (type, verdict)
cross join lateral (
  select id, name, properties, updated_at from graph_nodes
  where agent_id = {OWNED_AGENT_ID_SQL} and type = kind.type
  order by updated_at desc, id desc limit :most
) as newest
order by updated_at desc, newest.id desc limit :most
""")


@dataclass(frozen=True)
class Basis:
    """The pages that say what a conclusion states, or what it cites."""

    pages: int = 0
    """Without retracted ones."""
    sites: int = 0
    retracted: int = 0
    """Pages of which each version that it rests on is retracted."""


_PAGES: Final = text(f"""
with recursive reached (root, citing, id) as (
  select id, id, id from unnest(cast(:ids as uuid[])) as id
  union
  select reached.root, reached.id, coalesce(
    (select kept_id from graph_redirects where agent_id = {OWNED_AGENT_ID_SQL} and merged_id = cited_id limit 1),
    cited_id)
  from reached join citations on citations.conclusion_id = reached.id
), without_proof (root, id, concluded_at) as (
  -- Of conclusions that have no stored proof, what was known when they were concluded.
  select root, reached.id, created_at from reached join graph_nodes as conclusion on conclusion.id = citing
  where conclusion.rules -> '{PROOF}' is null
), quoted (root, source_id) as (
  select root, source_id from reached join conclusion_proofs on conclusion_id = reached.id
  union
  select root, source_id from without_proof join evidence on evidence.node_id = without_proof.id
  where learned_at <= concluded_at
  union
  select root, source_id from without_proof join evidence on evidence.edge_id = without_proof.id
  where learned_at <= concluded_at
)
select root, url, bool_and(retracted_at is not null) from quoted join sources on sources.id = source_id
where sources.agent_id = {OWNED_AGENT_ID_SQL}
group by root, url
""")


async def count_basis(access: AgentAccess, ids: Collection[UUID]) -> dict[UUID, Basis]:
    """Counts the pages and sites that each conclusion rests on, as far as citations are indexed."""
    if not ids:
        return {}
    urls: dict[UUID, list[str]] = {each: [] for each in ids}
    retracted: Counter[UUID] = Counter()
    params = {**access.scope.sql_params, "ids": list(ids)}
    rows = await access.session.execute(_PAGES, params)
    for root, url, is_retracted in rows:
        if is_retracted:
            retracted[root] += 1
        else:
            urls[root].append(url)
    return {
        root: Basis(len(each), len({*map(site_of, each)}), retracted[root])
        for root, each in urls.items()
    }


_NEWEST = Keyset(
    "investigation-requests", (InvestigationRequest.created_at, InvestigationRequest.id)
)
_IS_UNANSWERED = and_(
    InvestigationRequest.answered_at.is_(None), InvestigationRequest.dropped_at.is_(None)
)
_WAS_NOT_FOUND = and_(
    InvestigationRequest.not_found_at.is_not(None),
    func.coalesce(InvestigationRequest.reopened_at <= InvestigationRequest.not_found_at, true()),
)
_IS_OPEN = and_(_IS_UNANSWERED, not_(_WAS_NOT_FOUND))
_IS_INCOMPLETE = and_(
    or_(InvestigationRequest.answered_at.is_(None), InvestigationRequest.not_found.is_not(None)),
    InvestigationRequest.dropped_at.is_(None),
    _WAS_NOT_FOUND,
)
_STATE: Final = case(
    (InvestigationRequest.answered_at.is_not(None), RequestState.ANSWERED.value),
    (InvestigationRequest.dropped_at.is_not(None), RequestState.DROPPED.value),
    (_WAS_NOT_FOUND, RequestState.NOT_FOUND.value),
    else_=RequestState.OPEN.value,
)


_REQUEST: Final = columns_of(InvestigationRequest, InvestigationRequestResponse, state=_STATE)


@dataclass(frozen=True)
class Questions:
    """The newest investigation requests of an agent that are not answered."""

    open: list[InvestigationRequestResponse]
    not_found: list[InvestigationRequestResponse]
    """Not found, or answered in part."""
    has_more_open: bool


async def newest_questions(access: AgentAccess, limit: int) -> Questions:
    """Returns at most `limit` of each kind."""
    rows = await _QUESTIONS.rows(access.session, {**access.scope.sql_params, "most": limit + 1})
    found: dict[bool, list[InvestigationRequestResponse]] = {True: [], False: []}
    for row in rows:
        found[row.is_open].append(InvestigationRequestResponse.model_validate(row))
    return Questions(found[True][:limit], found[False][:limit], len(found[True]) > limit)


def _newest_requests(condition: ColumnElement[bool], *, is_open: bool) -> Subquery:
    return (
        select(*_REQUEST, literal_column(str(is_open).lower()).label("is_open"))
        .where(InvestigationRequest.agent_id == OWNED_AGENT_ID, condition)
        .order_by(*(column.desc() for column in _NEWEST.columns))
        .limit(bindparam("most"))
        .subquery()
    )


_QUESTIONS: Final = CompiledStatement(
    union_all(
        select(_newest_requests(_IS_OPEN, is_open=True)),
        select(_newest_requests(_IS_INCOMPLETE, is_open=False)),
    )
)


async def list_investigation_requests(
    access: AgentAccess,
    page_request: PageRequest,
    *,
    is_open: bool | None = None,
) -> Page[InvestigationRequestResponse]:
    """Lists investigation requests, newest first; with `is_open`, the open or the closed ones. Raises InvalidCursorError."""
    of_agent = InvestigationRequest.agent_id == access.scope.owned_agent_id()
    statement = select(*_REQUEST).where(of_agent)
    if is_open is not None:
        statement = statement.where(_IS_OPEN if is_open else not_(_IS_OPEN))
    return await read_page(
        access.session, InvestigationRequestResponse, statement, _NEWEST, page_request
    )
