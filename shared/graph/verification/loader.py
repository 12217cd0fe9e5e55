"""Loads the rows of a graph in batches, without the texts of pages."""

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
from shared.graph.conclusions.citations import CitedElements, Kind
from shared.graph.entity_resolution import redirects
from shared.graph.provenance.integrity import EdgeRow, EvidenceRow, Json, NodeRow, SourceRow
from shared.graph.scope import GraphScope
from shared.graph.verification.checks import QuotedEvidence, Support, cited_by

_TEXT_BYTES = func.octet_length(Source.text)
_BYTES = func.convert_to(Source.text, "UTF8")
TEXT_SHA256 = func.sha256(_BYTES, type_=LargeBinary)
"""Computed by PostgreSQL, so that the text need not be transferred."""
_QUOTE = func.substring(
    _BYTES,
    # At most the length of the text: a sum beyond the integer range would be an error.
    func.least(Evidence.first_byte, _TEXT_BYTES) + 1,
    func.least(Evidence.end_byte - Evidence.first_byte, _TEXT_BYTES),
)
_IS_DUE = exists().where(RetractedSource.source_id == Evidence.source_id, RetractedSource.is_due)
SOURCE_COLUMNS = (
    Source.id,
    Source.url,
    Source.title,
    Source.published,
    Source.fetched_at,
    Source.sha256,
    Source.seal,
    Source.retracted_at,
    Source.retraction_reason,
)
EVIDENCE_COLUMNS = (
    Evidence.id,
    func.coalesce(Evidence.node_id, Evidence.edge_id).label("element_id"),
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
NODE_COLUMNS = (
    GraphNode.id,
    GraphNode.type,
    GraphNode.name,
    GraphNode.properties,
    GraphNode.seal,
    GraphNode.created_at,
    GraphNode.updated_at,
)
EDGE_COLUMNS = (
    GraphEdge.id,
    GraphEdge.type,
    GraphEdge.source_id,
    GraphEdge.target_id,
    GraphEdge.properties,
    GraphEdge.seal,
    GraphEdge.created_at,
    GraphEdge.updated_at,
)

# All rows of an agent, in the order of an index.
SOURCES_IN_ORDER = Keyset("all sources", (Source.fetched_at, Source.id), descending=False)
NODES_IN_ORDER = Keyset("all nodes", (GraphNode.type, GraphNode.name), descending=False)
EDGES_IN_ORDER = Keyset(
    "all edges", (GraphEdge.type, GraphEdge.source_id, GraphEdge.target_id), descending=False
)

EvidenceByElement = dict[UUID, list[QuotedEvidence]]
"""By node or edge id."""


@dataclass(frozen=True)
class LoadedSource:
    row: SourceRow
    text_sha256: bytes


async def load_sources(
    session: AsyncSession, scope: GraphScope, ids: Collection[UUID]
) -> list[LoadedSource]:
    rows = await session.execute(select_sources(scope).where(Source.id.in_(ids)))
    return [loaded_source(*row) for row in rows]


def select_sources(
    scope: GraphScope,
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
    """Select sources with the hash of their stored text."""
    return select(*SOURCE_COLUMNS, TEXT_SHA256).where(Source.agent_id == scope.owned_agent_id())


def select_nodes(
    scope: GraphScope,
) -> Select[UUID, str, str, Json, bytes | None, datetime, datetime]:
    return select(*NODE_COLUMNS).where(GraphNode.agent_id == scope.owned_agent_id())


def select_edges(
    scope: GraphScope,
) -> Select[UUID, str, UUID, UUID, Json, bytes | None, datetime, datetime]:
    return select(*EDGE_COLUMNS).where(GraphEdge.agent_id == scope.owned_agent_id())


async def load_nodes(
    session: AsyncSession, scope: GraphScope, ids: Collection[UUID]
) -> dict[UUID, NodeRow]:
    if not ids:
        return {}
    rows = await session.execute(select_nodes(scope).where(GraphNode.id.in_(ids)))
    return {row.id: node_row(*row) for row in rows}


async def load_edges(
    session: AsyncSession, scope: GraphScope, ids: Collection[UUID]
) -> dict[UUID, EdgeRow]:
    if not ids:
        return {}
    rows = await session.execute(select_edges(scope).where(GraphEdge.id.in_(ids)))
    return {row.id: edge_row(*row) for row in rows}


async def load_evidence(
    session: AsyncSession, scope: GraphScope, kind: Kind, element_ids: Collection[UUID]
) -> EvidenceByElement:
    """All evidence of these nodes or edges, with the quoted bytes."""
    by_element: EvidenceByElement = defaultdict(list)
    if not element_ids:
        return by_element
    element_column = Evidence.node_id if kind is Kind.NODE else Evidence.edge_id
    has_source_row = Source.id.is_not(None)
    rows = await session.execute(
        select(
            *EVIDENCE_COLUMNS,
            case((has_source_row, _QUOTE)),
            func.coalesce(_TEXT_BYTES, 0),
            has_source_row,
            Source.retracted_at.is_not(None),
            _IS_DUE,
        )
        .outerjoin(
            Source, and_(Source.id == Evidence.source_id, Source.agent_id == scope.owned_agent_id())
        )
        .where(Evidence.agent_id == scope.owned_agent_id(), element_column.in_(element_ids))
        .order_by(Evidence.as_of, Evidence.learned_at, Evidence.id)
    )
    for *columns, quote, text_bytes, has_source, is_retracted, is_due in rows:
        row = evidence_row(*columns)
        by_element[row.element_id].append(
            QuotedEvidence(row, bytes(quote or b""), text_bytes, has_source, is_retracted, is_due)
        )
    return by_element


async def load_node_types(
    session: AsyncSession, scope: GraphScope, ids: Collection[UUID]
) -> dict[UUID, str]:
    """The type by id, of the nodes that exist."""
    if not ids:
        return {}
    rows = await session.execute(
        select(GraphNode.id, GraphNode.type).where(
            GraphNode.agent_id == scope.owned_agent_id(), GraphNode.id.in_(ids)
        )
    )
    return dict(rows.all())


async def load_current_ids(
    session: AsyncSession, scope: GraphScope, cited_ids: Collection[UUID]
) -> dict[UUID, UUID]:
    """The current id of each cited id: itself, or the element it was merged into."""
    redirected = await redirects.current_ids(session, scope, cited_ids)
    return {cited_id: redirected.get(cited_id, cited_id) for cited_id in cited_ids}


async def load_support(
    session: AsyncSession, scope: GraphScope, conclusions: Iterable[NodeRow]
) -> Support:
    """Load what these conclusions cite, under the ids by which they cite it."""
    cited = [citation for row in conclusions for citation in cited_by(row).citations]
    by_kind = {kind: {citation.id for citation in cited if citation.kind is kind} for kind in Kind}
    current = await load_current_ids(session, scope, {citation.id for citation in cited})
    types = await load_node_types(
        session, scope, {current[citation] for citation in by_kind[Kind.NODE]}
    )
    existing_edges = await load_edges(
        session, scope, {current[citation] for citation in by_kind[Kind.EDGE]}
    )
    retracted = await _load_retracted(session, scope, set(current.values()))
    return Support(
        CitedElements(
            {
                citation: types[current[citation]]
                for citation in by_kind[Kind.NODE]
                if current[citation] in types
            },
            {citation for citation in by_kind[Kind.EDGE] if current[citation] in existing_edges},
        ),
        {citation for citation, current_id in current.items() if current_id in retracted},
    )


async def _load_retracted(
    session: AsyncSession, scope: GraphScope, element_ids: Collection[UUID]
) -> set[UUID]:
    """Those of the elements whose sources are all retracted."""
    if not element_ids:
        return set()
    element_column = func.coalesce(Evidence.node_id, Evidence.edge_id)
    rows = await session.scalars(
        select(element_column)
        .join(Source, Source.id == Evidence.source_id)
        .where(Evidence.agent_id == scope.owned_agent_id(), _is_about_any(element_ids))
        .group_by(element_column)
        .having(func.bool_and(Source.retracted_at.is_not(None)))
    )
    return set(rows)


def _is_about_any(element_ids: Collection[UUID]) -> ColumnElement[bool]:
    return or_(Evidence.node_id.in_(element_ids), Evidence.edge_id.in_(element_ids))


def loaded_source(*columns: Any) -> LoadedSource:
    """From a row of `select_sources`."""
    return LoadedSource(source_row(*columns[:-1]), columns[-1])


def source_row(*columns: Any) -> SourceRow:
    return SourceRow.model_construct(**_by_column_name(SOURCE_COLUMNS, columns))


def evidence_row(*columns: Any) -> EvidenceRow:
    return EvidenceRow.model_construct(**_by_column_name(EVIDENCE_COLUMNS, columns))


def node_row(*columns: Any) -> NodeRow:
    return NodeRow.model_construct(**_by_column_name(NODE_COLUMNS, columns))


def edge_row(*columns: Any) -> EdgeRow:
    return EdgeRow.model_construct(**_by_column_name(EDGE_COLUMNS, columns))


def _by_column_name(columns: Sequence[Any], values: Sequence[Any]) -> dict[str, Any]:
    return {column.key: value for column, value in zip(columns, values, strict=True)}
