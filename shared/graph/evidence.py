"""What nodes and edges rest on, and the pages that were read, for people."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, LargeBinary, func, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from shared.graph.proof.fold import Claim, standing
from shared.graph.refold import claims_of
from shared.graph.scope import Scope
from shared.store.reading.evidence_shapes import ClaimView, EvidenceView, SourceDetails, SourceView
from shared.store.reading.keyset import Keyset, slice_of
from shared.store.reading.page import Page, Wanted
from shared.store.tables import Evidence, Source

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
