"""The rows of a graph, many at a time: never one by one, and never a page's text."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, LargeBinary, Select, and_, case, exists, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.pagination import Keyset
from shared.database.tables import Evidence, GraphEdge, GraphNode, RetractedSource, Source
from shared.graph.conclusions.citations import Found, Kind
from shared.graph.entity_resolution import redirects
from shared.graph.provenance.integrity import EdgeRow, EvidenceRow, Json, NodeRow, SourceRow
from shared.graph.scope import Scope
from shared.graph.verification.checks import Spanned, Support, cited_by

_TEXT_BYTES = func.octet_length(Source.text)
_BYTES = func.convert_to(Source.text, "UTF8")
TEXT_SHA256 = func.sha256(_BYTES, type_=LargeBinary)
"""Of the text as it stands there, made by PostgreSQL, so that the text need not travel."""
_QUOTE = func.substring(
    _BYTES,
    # No further than the text: sums beyond what an integer holds would be an error.
    func.least(Evidence.first_byte, _TEXT_BYTES) + 1,
    func.least(Evidence.end_byte - Evidence.first_byte, _TEXT_BYTES),
)
_IS_DUE = exists().where(RetractedSource.source_id == Evidence.source_id, RetractedSource.is_due)
SOURCE = (
    Source.id,
    Source.url,
    Source.title,
    Source.published,
    Source.fetched_at,
    Source.sha256,
    Source.seal,
    Source.retracted_at,
    Source.retracted_because,
)
EVIDENCE = (
    Evidence.id,
    func.coalesce(Evidence.node_id, Evidence.edge_id).label("thing_id"),
    Evidence.source_id,
    Evidence.first_byte,
    Evidence.end_byte,
    Evidence.quote_sha256,
    Evidence.claims,
    Evidence.valid_from,
    Evidence.valid_to,
    Evidence.as_of,
    Evidence.learned_at,
    Evidence.seal,
)
NODE = (
    GraphNode.id,
    GraphNode.type,
    GraphNode.name,
    GraphNode.properties,
    GraphNode.seal,
    GraphNode.created_at,
    GraphNode.updated_at,
)
EDGE = (
    GraphEdge.id,
    GraphEdge.type,
    GraphEdge.source_id,
    GraphEdge.target_id,
    GraphEdge.properties,
    GraphEdge.seal,
    GraphEdge.created_at,
    GraphEdge.updated_at,
)

# All of an agent's, in orders that indexes have.
SOURCES_IN_ORDER = Keyset("all sources", (Source.fetched_at, Source.id), descending=False)
NODES_IN_ORDER = Keyset("all nodes", (GraphNode.type, GraphNode.name), descending=False)
EDGES_IN_ORDER = Keyset(
    "all edges", (GraphEdge.type, GraphEdge.source_id, GraphEdge.target_id), descending=False
)

EvidenceOf = dict[UUID, list[Spanned]]
"""By node or edge."""


@dataclass(frozen=True)
class SourceFound:
    row: SourceRow
    text_sha256: bytes


async def sources_by_id(
    session: AsyncSession, scope: Scope, wanted: Collection[UUID]
) -> list[SourceFound]:
    rows = await session.execute(all_sources(scope).where(Source.id.in_(wanted)))
    return [source_found(*row) for row in rows]


def all_sources(
    scope: Scope,
) -> Select[
    UUID,
    str,
    str | None,
    datetime | None,
    datetime,
    bytes,
    bytes,
    datetime | None,
    str | None,
    bytes,
]:
    """With the hash of the text as it stands there."""
    return select(*SOURCE, TEXT_SHA256).where(Source.agent_id == scope.agent())


def all_nodes(scope: Scope) -> Select[UUID, str, str, Json, bytes | None, datetime, datetime]:
    return select(*NODE).where(GraphNode.agent_id == scope.agent())


def all_edges(
    scope: Scope,
) -> Select[UUID, str, UUID, UUID, Json, bytes | None, datetime, datetime]:
    return select(*EDGE).where(GraphEdge.agent_id == scope.agent())


async def nodes(
    session: AsyncSession, scope: Scope, wanted: Collection[UUID]
) -> dict[UUID, NodeRow]:
    if not wanted:
        return {}
    rows = await session.execute(all_nodes(scope).where(GraphNode.id.in_(wanted)))
    return {row.id: node_row(*row) for row in rows}


async def edges(
    session: AsyncSession, scope: Scope, wanted: Collection[UUID]
) -> dict[UUID, EdgeRow]:
    if not wanted:
        return {}
    rows = await session.execute(all_edges(scope).where(GraphEdge.id.in_(wanted)))
    return {row.id: edge_row(*row) for row in rows}


async def evidence_of(
    session: AsyncSession, scope: Scope, kind: Kind, things: Collection[UUID]
) -> EvidenceOf:
    """All evidence of these nodes, or edges, each with what stands at its span."""
    found: EvidenceOf = defaultdict(list)
    if not things:
        return found
    thing = Evidence.node_id if kind is Kind.NODE else Evidence.edge_id
    is_there = Source.id.is_not(None)
    rows = await session.execute(
        select(
            *EVIDENCE,
            case((is_there, _QUOTE)),
            func.coalesce(_TEXT_BYTES, 0),
            is_there,
            Source.retracted_at.is_not(None),
            _IS_DUE,
        )
        .outerjoin(Source, and_(Source.id == Evidence.source_id, Source.agent_id == scope.agent()))
        .where(Evidence.agent_id == scope.agent(), thing.in_(things))
        .order_by(Evidence.as_of, Evidence.learned_at, Evidence.id)
    )
    for *columns, quote, text_bytes, has_source, is_retracted, is_due in rows:
        row = evidence_row(*columns)
        found[row.thing_id].append(
            Spanned(row, bytes(quote or b""), text_bytes, has_source, is_retracted, is_due)
        )
    return found


async def node_types(
    session: AsyncSession, scope: Scope, wanted: Collection[UUID]
) -> dict[UUID, str]:
    """Of those that are there."""
    if not wanted:
        return {}
    rows = await session.execute(
        select(GraphNode.id, GraphNode.type).where(
            GraphNode.agent_id == scope.agent(), GraphNode.id.in_(wanted)
        )
    )
    return dict(rows.all())


async def current_ids(
    session: AsyncSession, scope: Scope, cited: Collection[UUID]
) -> dict[UUID, UUID]:
    """What each cited id stands for now: itself, or what it was merged into."""
    moved = await redirects.current_ids(session, scope, cited)
    return {each: moved.get(each, each) for each in cited}


async def support_of(
    session: AsyncSession, scope: Scope, conclusions: Iterable[NodeRow]
) -> Support:
    """What there is of all that these cite, under the ids by which they cite it."""
    cited = [each for row in conclusions for each in cited_by(row).citations]
    by_kind = {kind: {each.id for each in cited if each.kind is kind} for kind in Kind}
    current = await current_ids(session, scope, {each.id for each in cited})
    types = await node_types(session, scope, {current[each] for each in by_kind[Kind.NODE]})
    known = await edges(session, scope, {current[each] for each in by_kind[Kind.EDGE]})
    retracted = await _retracted(session, scope, set(current.values()))
    return Support(
        Found(
            {each: types[current[each]] for each in by_kind[Kind.NODE] if current[each] in types},
            {each for each in by_kind[Kind.EDGE] if current[each] in known},
        ),
        {each for each, now in current.items() if now in retracted},
    )


async def _retracted(session: AsyncSession, scope: Scope, things: Collection[UUID]) -> set[UUID]:
    """Those of these nodes and edges whose pages are all retracted."""
    if not things:
        return set()
    thing = func.coalesce(Evidence.node_id, Evidence.edge_id)
    rows = await session.scalars(
        select(thing)
        .join(Source, Source.id == Evidence.source_id)
        .where(Evidence.agent_id == scope.agent(), _of_any(things))
        .group_by(thing)
        .having(func.bool_and(Source.retracted_at.is_not(None)))
    )
    return set(rows)


def _of_any(things: Collection[UUID]) -> ColumnElement[bool]:
    return or_(Evidence.node_id.in_(things), Evidence.edge_id.in_(things))


def source_found(*columns: Any) -> SourceFound:
    """Of a row of `all_sources`."""
    return SourceFound(source_row(*columns[:-1]), columns[-1])


def source_row(*columns: Any) -> SourceRow:
    return SourceRow.model_construct(**_named(SOURCE, columns))


def evidence_row(*columns: Any) -> EvidenceRow:
    return EvidenceRow.model_construct(**_named(EVIDENCE, columns))


def node_row(*columns: Any) -> NodeRow:
    return NodeRow.model_construct(**_named(NODE, columns))


def edge_row(*columns: Any) -> EdgeRow:
    return EdgeRow.model_construct(**_named(EDGE, columns))


def _named(columns: Sequence[Any], values: Sequence[Any]) -> dict[str, Any]:
    return {column.key: value for column, value in zip(columns, values, strict=True)}
