"""Evidence, sources, retractions and hashes."""

from collections.abc import Collection, Mapping
from typing import Any, Final
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    LargeBinary,
    ScalarSelect,
    Select,
    func,
    null,
    or_,
    select,
    text,
)
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from shared.database.pagination import Keyset, slice_of
from shared.database.tables import (
    Agent,
    Doubt,
    Evidence,
    GraphEdge,
    GraphNode,
    RetractedSource,
    Retraction,
    Source,
)
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph import labels
from shared.graph.projection import claims_of
from shared.graph.provenance.claims import Claim, standing
from shared.graph.retraction.retractions import BEFORE_ALL
from shared.graph.scope import OWNED_SQL, Scope
from shared.schemas.base import Page, View, Wanted
from shared.schemas.provenance import (
    ClaimView,
    EvidenceView,
    MarksView,
    MarkView,
    RetractionView,
    SourceDetails,
    SourceView,
)

_EVIDENCE = Keyset("evidence", (Evidence.as_of, Evidence.learned_at, Evidence.id))
_SOURCES = Keyset("sources", (Source.fetched_at, Source.id))
_QUOTE: ColumnElement[bytes] = func.substring(
    func.convert_to(Source.text, "UTF8", type_=LargeBinary),
    Evidence.first_byte + 1,
    Evidence.end_byte - Evidence.first_byte,
    type_=LargeBinary,
)
SOURCE_COLUMNS = (
    Source.id,
    Source.url,
    Source.title,
    Source.published,
    Source.fetched_at,
    Source.sha256,
    Source.retracted_at,
    Source.retracted_because,
)


async def of_node(
    session: AsyncSession, scope: Scope, node_id: UUID, wanted: Wanted
) -> Page[EvidenceView]:
    """What is true latest first, as claims hold."""
    return await _evidence(session, scope, Evidence.node_id, node_id, wanted)


async def of_edge(
    session: AsyncSession, scope: Scope, edge_id: UUID, wanted: Wanted
) -> Page[EvidenceView]:
    """As `of_node`."""
    return await _evidence(session, scope, Evidence.edge_id, edge_id, wanted)


async def sources(
    session: AsyncSession,
    scope: Scope,
    wanted: Wanted,
    *,
    url: str | None = None,
    retracted: bool | None = None,
) -> Page[SourceView]:
    """Those fetched last first; the versions of the page at `url` where it is given."""
    statement = select(*SOURCE_COLUMNS).where(Source.agent_id == scope.agent())
    if url is not None:
        statement = statement.where(Source.url == url)
    if retracted is not None:
        statement = statement.where(Source.retracted_at.is_not(None) == retracted)
    return (await slice_of(session, statement, _SOURCES, wanted)).page(source_view)


async def source(session: AsyncSession, scope: Scope, source_id: UUID) -> SourceDetails | None:
    """None where the agent has no such source."""
    found = (
        await session.execute(
            select(*SOURCE_COLUMNS, Source.step_id, Source.text).where(
                Source.agent_id == scope.agent(), Source.id == source_id
            )
        )
    ).one_or_none()
    if found is None:
        return None
    *told, step_id, text = found
    return SourceDetails(**dict(source_view(*told)), step_id=step_id, text=text)


async def _evidence(
    session: AsyncSession,
    scope: Scope,
    of: InstrumentedAttribute[UUID | None],
    thing: UUID,
    wanted: Wanted,
) -> Page[EvidenceView]:
    statement = (
        select(Evidence, Source.url, Source.title, Source.published, Source.fetched_at)
        .add_columns(Source.retracted_at, _QUOTE)
        .join(Source, Source.id == Evidence.source_id)
        .where(Evidence.agent_id == scope.agent(), of == thing)
    )
    found = await slice_of(session, statement, _EVIDENCE, wanted)
    held = standing(await claims_of(session, of.key, thing)) if found.rows else {}
    return Page(items=[_view(held, *row) for row in found.rows], next=found.next)


def _view(held: Mapping[str, Claim], row: Evidence, *page: Any) -> EvidenceView:
    url, title, published, fetched_at, retracted_at, quote = page
    return EvidenceView(
        id=row.id,
        source_id=row.source_id,
        url=url,
        title=title,
        published=published,
        fetched_at=fetched_at,
        retracted_at=retracted_at,
        first_byte=row.first_byte,
        end_byte=row.end_byte,
        # A span that was moved may begin amid a character.
        quote=quote.decode(errors="replace"),
        claims=[
            ClaimView(
                property=name,
                value=value,
                holds=name in held and held[name].evidence_id == row.id,
            )
            for name, value in row.claims.items()
        ],
        valid_from=row.valid_from,
        valid_to=row.valid_to,
        as_of=row.as_of,
        learned_at=row.learned_at,
    )


def source_view(*row: Any) -> SourceView:
    told = dict(zip((column.key for column in SOURCE_COLUMNS), row, strict=True))
    return SourceView(**{**told, "sha256": told["sha256"].hex()})


MOST_TOLD: Final = 500


async def of_source(session: AsyncSession, scope: Scope, source_id: UUID) -> MarksView:
    """Those that stand first in it, MOST_TOLD at most; none where the agent has no such source."""
    rows = (
        await session.scalars(
            select(Evidence)
            .where(Evidence.agent_id == scope.agent(), Evidence.source_id == source_id)
            .order_by(Evidence.first_byte, Evidence.end_byte, Evidence.id)
            .limit(MOST_TOLD + 1)
        )
    ).all()
    told = rows[:MOST_TOLD]
    things = [each.node_id or each.edge_id for each in told]
    names = await labels.named(
        session, scope.owner_id, scope.agent_id, [each for each in things if each is not None]
    )
    marks = [
        MarkView(
            evidence_id=each.id,
            first_byte=each.first_byte,
            end_byte=each.end_byte,
            kind="edge" if each.node_id is None else "node",
            thing_id=thing,
            type=names[thing].type,
            name=names[thing].name,
            claims=each.claims,
        )
        for each, thing in zip(told, things, strict=True)
        if thing is not None and thing in names
    ]
    return MarksView(items=marks, cut=len(rows) > MOST_TOLD)


LOOKED_THROUGH: Final = 5_000
"""Pages; so a search costs the same however many were read."""
TOLD_AT_MOST: Final = 100
MOST_COUNTED: Final = 1_000
"""Quotes of one page."""


async def holding(
    session: AsyncSession, scope: Scope, part: str, *, retracted: bool | None = None
) -> list[SourceView]:
    """Those fetched last first, TOLD_AT_MOST of them."""
    recent = (
        select(Source.id)
        .where(Source.agent_id == scope.agent())
        .order_by(Source.fetched_at.desc(), Source.id.desc())
        .limit(LOOKED_THROUGH)
        .subquery()
    )
    statement = (
        select(*SOURCE_COLUMNS)
        .join(recent, recent.c.id == Source.id)
        .where(
            or_(
                Source.url.icontains(part, autoescape=True),
                Source.title.icontains(part, autoescape=True),
            )
        )
    )
    if retracted is not None:
        statement = statement.where(Source.retracted_at.is_not(None) == retracted)
    rows = await session.execute(
        statement.order_by(Source.fetched_at.desc(), Source.id.desc()).limit(TOLD_AT_MOST)
    )
    return [source_view(*row) for row in rows]


async def quotes_of(session: AsyncSession, scope: Scope, ids: Collection[UUID]) -> dict[UUID, int]:
    """How many quotes rest on each page, counted up to MOST_COUNTED."""
    rows = await session.execute(
        text(_QUOTES), {**scope.bound, "ids": list(ids), "most": MOST_COUNTED}
    )
    return {row[0]: row[1] for row in rows}


_QUOTES: Final = (
    "select id, (select count(*) from (select from evidence where source_id = sources.id limit :most)"
    f" counted) from sources where agent_id = {OWNED_SQL} and id = any(cast(:ids as uuid[]))"
)


_NEWEST = Keyset("retractions", (Retraction.created_at, Retraction.id))


async def of_agent(
    session: AsyncSession,
    owner_id: UUID,
    agent_id: UUID,
    wanted: Wanted,
    *,
    standing: bool | None = None,
    source: str | None = None,
) -> Page[RetractionView]:
    """The newest first. `source` is a URL or a source's id."""
    statement = _retractions(owner_id, agent_id)
    if standing is not None:
        statement = statement.where(Retraction.restored_at.is_(None) == standing)
    if source is not None:
        meant = Retraction.url == source
        if (source_id := _as_id(source)) is not None:
            meant = Retraction.source_id == source_id
        statement = statement.where(meant)
    return (await slice_of(session, statement, _NEWEST, wanted)).page(_retraction_view)


async def find(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, retraction_id: UUID
) -> RetractionView | None:
    """None where the agent has none of that id."""
    statement = _retractions(owner_id, agent_id).where(Retraction.id == retraction_id)
    found = (
        await session.execute(statement.execution_options(populate_existing=True))
    ).one_or_none()
    return None if found is None else _retraction_view(*found)


def _retractions(owner_id: UUID, agent_id: UUID) -> Select[Retraction, int, int, int, int]:
    counted = (
        select(func.count())
        .where(RetractedSource.retraction_id == Retraction.id)
        .correlate(Retraction)
        .scalar_subquery()
    )
    in_doubt = (_in_doubt(ANALYSIS_TYPE), _in_doubt(ADVICE_TYPE))
    return select(Retraction, counted, _left(), *in_doubt).where(
        Retraction.agent_id == _owned(owner_id, agent_id)
    )


def _left() -> ScalarSelect[int]:
    done = func.coalesce(RetractedSource.through, BEFORE_ALL)
    return (
        select(func.count(Evidence.id))
        .join(RetractedSource, RetractedSource.source_id == Evidence.source_id)
        .where(
            RetractedSource.retraction_id == Retraction.id,
            RetractedSource.is_due,
            Evidence.id > done,
        )
        .correlate(Retraction)
        .scalar_subquery()
    )


def _in_doubt(type_name: str) -> ScalarSelect[int]:
    return (
        select(func.count(Doubt.conclusion_id.distinct()))
        .join(RetractedSource, RetractedSource.source_id == Doubt.source_id)
        .join(GraphNode, GraphNode.id == Doubt.conclusion_id)
        .where(
            RetractedSource.retraction_id == Retraction.id,
            Doubt.cleared_at.is_(None),
            GraphNode.type == type_name,
        )
        .correlate(Retraction)
        .scalar_subquery()
    )


def _owned(owner_id: UUID, agent_id: UUID) -> ScalarSelect[UUID]:
    """The agent's id; null where it is not the owner's."""
    owned = select(Agent.id).where(Agent.id == agent_id, Agent.owner_id == owner_id)
    return owned.scalar_subquery()


def _retraction_view(
    row: Retraction, counted: int, left: int, analyses: int, advice: int
) -> RetractionView:
    return RetractionView(
        id=row.id,
        url=row.url,
        source_id=row.source_id,
        because=row.because,
        created_at=row.created_at,
        restored_at=row.restored_at,
        is_pending=row.due_at is not None,
        left=left,
        sources=counted,
        analyses=analyses,
        advice=advice,
    )


def _as_id(reference: str) -> UUID | None:
    try:
        return UUID(reference)
    except ValueError:
        return None


class HashView(View):
    """In hex."""

    seal: str | None
    """Of the row; None of what was written before there were seals."""
    text_sha256: str | None
    """Of a page's text, or of the quote's bytes; None where there is neither."""


async def of_links(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, ids: Collection[UUID]
) -> dict[UUID, HashView]:
    """Of those of these nodes, edges, quotes and pages that are the owner's agent's."""
    nothing = null().cast(LargeBinary)
    owned = select(Agent.id).where(Agent.id == agent_id, Agent.owner_id == owner_id)
    mine = owned.scalar_subquery()
    statements: list[Select[UUID, bytes | None, bytes | None]] = [
        select(GraphNode.id, GraphNode.seal, nothing).where(
            GraphNode.id.in_(ids), GraphNode.agent_id == mine
        ),
        select(GraphEdge.id, GraphEdge.seal, nothing).where(
            GraphEdge.id.in_(ids), GraphEdge.agent_id == mine
        ),
        select(Evidence.id, Evidence.seal, Evidence.quote_sha256).where(
            Evidence.id.in_(ids), Evidence.agent_id == mine
        ),
        select(Source.id, Source.seal, Source.sha256).where(
            Source.id.in_(ids), Source.agent_id == mine
        ),
    ]
    found: dict[UUID, HashView] = {}
    for statement in statements:
        for link_id, seal, digest in await session.execute(statement):
            found[link_id] = HashView(seal=_hex(seal), text_sha256=_hex(digest))
    return found


def _hex(digest: bytes | None) -> str | None:
    return None if digest is None else digest.hex()
