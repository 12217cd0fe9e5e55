"""The newest conclusions and the investigation requests of an agent."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import and_, func, not_, or_, select, text, true, union_all
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.pagination import Keyset, paginate
from shared.database.tables import Agent, GraphNode, InvestigationRequest
from shared.domains import site_of
from shared.graph.conclusions.queries import VERDICT_PROPERTIES
from shared.graph.retraction import doubts
from shared.graph.scope import OWNED_AGENT_ID_SQL, GraphScope
from shared.schemas.base import Page, PageRequest, ResponseModel
from shared.schemas.conclusions import InvestigationRequestResponse


class LatestConclusion(ResponseModel):
    """`word` is the verdict:

    `observation` or `pattern` of an analysis, `BUY`, `SELL` or `HOLD` of advice.
    """

    id: UUID
    word: str
    name: str
    summary: str
    updated_at: datetime
    doubted_since: datetime | None


COLUMNS: Final = (
    GraphNode.id,
    GraphNode.type,
    GraphNode.name,
    GraphNode.properties,
    GraphNode.updated_at,
)


async def newest_conclusions(
    session: AsyncSession, scope: GraphScope, limit: int
) -> list[LatestConclusion]:
    """Returns the newest advice and analyses. Each type is queried by itself, to use its index."""
    of_kinds = [
        select(*COLUMNS)
        .where(GraphNode.agent_id == scope.owned_agent_id(), GraphNode.type == kind)
        .order_by(GraphNode.updated_at.desc(), GraphNode.id.desc())
        .limit(limit)
        .subquery()
        for kind in VERDICT_PROPERTIES
    ]
    united = union_all(*(select(of_kind) for of_kind in of_kinds)).subquery()
    newest = select(united).order_by(united.c.updated_at.desc(), united.c.id.desc()).limit(limit)
    rows = (await session.execute(newest)).all()
    doubted_since = await doubts.doubted_since(session, [row.id for row in rows]) if rows else {}
    return [
        LatestConclusion(
            id=row.id,
            word=row.properties[VERDICT_PROPERTIES[row.type]],
            name=row.name,
            summary=row.properties["summary"],
            updated_at=row.updated_at,
            doubted_since=doubted_since.get(row.id),
        )
        for row in rows
    ]


class FoundConclusion(ResponseModel):
    id: UUID
    name: str
    agent_id: UUID
    agent_name: str


async def find_conclusions(
    session: AsyncSession, owner_id: UUID, search: str, *, limit: int
) -> list[FoundConclusion]:
    """Returns the newest analyses and advice of the owner's agents whose names contain all words of `search`."""
    statement = (
        select(GraphNode.id, GraphNode.name, GraphNode.agent_id, Agent.name.label("agent_name"))
        .join(Agent, Agent.id == GraphNode.agent_id)
        .where(Agent.owner_id == owner_id, GraphNode.type.in_(VERDICT_PROPERTIES))
    )
    for word in search.split():
        statement = statement.where(GraphNode.name.icontains(word, autoescape=True))
    rows = await session.execute(statement.order_by(GraphNode.updated_at.desc()).limit(limit))
    return [FoundConclusion.model_validate(row._mapping) for row in rows]


@dataclass(frozen=True)
class Basis:
    """The pages that a conclusion rests on."""

    pages: int = 0
    """Without retracted ones."""
    sites: int = 0
    retracted: int = 0
    """Pages of which each version that it rests on is retracted."""


_PAGES: Final = text(f"""
with recursive reached (root, id) as (
  select id, id from unnest(cast(:ids as uuid[])) as id
  union
  select reached.root, coalesce(
    (select kept_id from graph_redirects where agent_id = {OWNED_AGENT_ID_SQL} and merged_id = cited_id limit 1),
    cited_id)
  from reached join citations on citations.conclusion_id = reached.id
), quoted (root, source_id) as (
  select root, source_id from reached join evidence on evidence.node_id = reached.id
  union
  select root, source_id from reached join evidence on evidence.edge_id = reached.id
)
select root, url, bool_and(retracted_at is not null) from quoted join sources on sources.id = source_id
where sources.agent_id = {OWNED_AGENT_ID_SQL}
group by root, url
""")


async def count_basis(
    session: AsyncSession, scope: GraphScope, ids: Collection[UUID]
) -> dict[UUID, Basis]:
    """Counts the pages and sites that each conclusion rests on, as far as citations are indexed."""
    if not ids:
        return {}
    urls: dict[UUID, list[str]] = {each: [] for each in ids}
    retracted: Counter[UUID] = Counter()
    rows = await session.execute(_PAGES, {**scope.sql_params, "ids": list(ids)})
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


async def list_investigation_requests(
    session: AsyncSession,
    owner_id: UUID,
    agent_id: UUID,
    page_request: PageRequest,
    *,
    is_open: bool | None = None,
    is_incomplete: bool = False,
) -> Page[InvestigationRequestResponse]:
    """Lists investigation requests, newest first; with `is_open`, the open or the closed ones; with
    `is_incomplete`, those that were not found or answered in part.

    Raises InvalidCursorError.
    """
    owned_agent = select(Agent.id).where(Agent.id == agent_id, Agent.owner_id == owner_id)
    of_agent = InvestigationRequest.agent_id == owned_agent.scalar_subquery()
    statement = select(InvestigationRequest).where(of_agent)
    if is_open is not None:
        statement = statement.where(_IS_OPEN if is_open else not_(_IS_OPEN))
    if is_incomplete:
        statement = statement.where(_IS_INCOMPLETE)
    page_slice = await paginate(session, statement, _NEWEST, page_request)
    return page_slice.page(InvestigationRequestResponse.model_validate)
