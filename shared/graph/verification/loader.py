"""Loads the rows of a graph in batches, without the texts of pages."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, Generic, TypeVar, cast
from uuid import UUID

from sqlalchemy import LargeBinary, Select, and_, case, exists, func, or_, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.pagination import Keyset
from shared.database.tables import (
    EntailmentVerdict,
    Evidence,
    GraphEdge,
    GraphMerge,
    GraphName,
    GraphNode,
    RetractedSource,
    Source,
)
from shared.graph.conclusions.citations import CitedElements, Kind
from shared.graph.entity_resolution import redirects
from shared.graph.grounding.cited import Passage, years_of_page
from shared.graph.provenance.integrity import EdgeRow, EvidenceRow, NodeRow, Row, SourceRow
from shared.graph.provenance.page_reading import PageReading
from shared.graph.provenance.quotes import Span
from shared.graph.scope import GraphScope
from shared.graph.verification.checks import QuotedEvidence, cited_by
from shared.schemas.provenance import VerdictResponse

BATCH_SIZE: Final = 1000
"""Ids per statement."""
_TEXT_BYTES = func.octet_length(Source.text)
_BYTES = func.convert_to(Source.text, "UTF8")
_TEXT_SHA256 = func.sha256(_BYTES, type_=LargeBinary)
"""Computed by PostgreSQL, so that the text need not be transferred."""
_QUOTE = func.substring(
    _BYTES,
    # At most the length of the text: a sum beyond the integer range would be an error.
    func.least(Evidence.first_byte, _TEXT_BYTES) + 1,
    func.least(Evidence.end_byte - Evidence.first_byte, _TEXT_BYTES),
)
_READING = case(
    # Sentences are many, and are not needed.
    (func.jsonb_typeof(Source.reading) == "object", Source.reading.op("-")("sentences"))
)
_SPANS_SQL = text(
    "select substring(convert_to(sources.text, 'UTF8'),"
    " least(first_byte, octet_length(sources.text)) + 1,"
    " least(end_byte - first_byte, octet_length(sources.text))), octet_length(sources.text)"
    " from unnest(cast(:sources as uuid[]), cast(:first as int[]), cast(:end as int[]))"
    " with ordinality as wanted (source_id, first_byte, end_byte, place)"
    " left join sources on sources.id = source_id order by place"
)
_IS_DUE = exists().where(RetractedSource.source_id == Evidence.source_id, RetractedSource.is_due)
_ELEMENT_ID = func.coalesce(Evidence.node_id, Evidence.edge_id).label("element_id")

R = TypeVar("R", bound=Row)


class StoredSource(SourceRow):
    text_sha256: bytes
    """Of the stored text; `sha256` is of the text as it was fetched."""


def row_columns(model: type[Row], table: type[Any], **computed: Any) -> list[Any]:
    """The columns of the model's fields: those of the same names, unless `computed` replaces them."""
    return [
        computed[name] if name in computed else getattr(table, name) for name in model.model_fields
    ]


def build_row(model: type[R], columns: Iterable[Any]) -> R:
    """From a row of `row_columns`."""
    return cast(R, model.model_construct(**dict(zip(model.model_fields, columns, strict=True))))


@dataclass(frozen=True)
class RowLoader(Generic[R]):
    """Loads the sources, nodes or edges of an agent."""

    model: type[R]
    table: type[Source] | type[GraphNode] | type[GraphEdge]
    columns: list[Any]
    order: Keyset
    """The order of an index, for reading all rows of an agent."""

    def select(self, scope: GraphScope) -> Select[*tuple[Any, ...]]:
        return select(*self.columns).where(self.table.agent_id == scope.owned_agent_id())

    def row(self, columns: Iterable[Any]) -> R:
        """From a row of `select`."""
        return build_row(self.model, columns)

    async def load(
        self, session: AsyncSession, scope: GraphScope, ids: Iterable[UUID]
    ) -> dict[UUID, R]:
        """The rows that exist, by id."""
        rows: dict[UUID, R] = {}
        for batch in _batches(ids):
            statement = self.select(scope).where(self.table.id.in_(batch))
            rows |= {row[0]: self.row(row) for row in await session.execute(statement)}
        return rows


SOURCES: Final = RowLoader(
    StoredSource,
    Source,
    row_columns(StoredSource, Source, text_sha256=_TEXT_SHA256),
    Keyset("all sources", (Source.fetched_at, Source.id), descending=False),
)
NODES: Final = RowLoader(
    NodeRow,
    GraphNode,
    row_columns(NodeRow, GraphNode),
    Keyset("all nodes", (GraphNode.type, GraphNode.name), descending=False),
)
EDGES: Final = RowLoader(
    EdgeRow,
    GraphEdge,
    row_columns(EdgeRow, GraphEdge),
    Keyset(
        "all edges", (GraphEdge.type, GraphEdge.source_id, GraphEdge.target_id), descending=False
    ),
)


async def load_evidence(
    session: AsyncSession, scope: GraphScope, kind: Kind, element_ids: Iterable[UUID]
) -> dict[UUID, list[QuotedEvidence]]:
    """All evidence of these nodes or edges by their id, with the quoted bytes."""
    by_element: defaultdict[UUID, list[QuotedEvidence]] = defaultdict(list)
    element_column = Evidence.node_id if kind is Kind.NODE else Evidence.edge_id
    has_source_row = Source.id.is_not(None)
    statement = (
        select(
            *row_columns(EvidenceRow, Evidence, element_id=_ELEMENT_ID),
            case((has_source_row, _QUOTE)),
            func.coalesce(_TEXT_BYTES, 0),
            has_source_row,
            Source.retracted_at.is_not(None),
            _IS_DUE,
            Evidence.step_id,
        )
        .outerjoin(
            Source, and_(Source.id == Evidence.source_id, Source.agent_id == scope.owned_agent_id())
        )
        .where(Evidence.agent_id == scope.owned_agent_id())
        .order_by(Evidence.as_of, Evidence.learned_at, Evidence.id)
    )
    for batch in _batches(element_ids):
        evidence = []
        for (
            *columns,
            quote,
            text_bytes,
            has_source,
            is_retracted,
            is_due,
            step_id,
        ) in await session.execute(statement.where(element_column.in_(batch))):
            row = build_row(EvidenceRow, columns)
            evidence.append(
                QuotedEvidence(
                    row, bytes(quote or b""), text_bytes, has_source, is_retracted, is_due, step_id
                )
            )
        for quoted in await _with_passages(session, scope, evidence):
            by_element[quoted.row.element_id].append(quoted)
    return by_element


async def _with_passages(
    session: AsyncSession, scope: GraphScope, evidence: Sequence[QuotedEvidence]
) -> list[QuotedEvidence]:
    """The evidence with the passages of what rules have checked."""
    checked = [each for each in evidence if each.row.rules is not None and each.has_source]
    if not checked:
        return list(evidence)
    pages = await session.execute(
        select(Source.id, Source.title, _READING, Source.published, Source.fetched_at).where(
            Source.agent_id == scope.owned_agent_id(),
            Source.id.in_({each.row.source_id for each in checked}),
        )
    )
    known = {
        page_id: (title or "", _parse_reading(reading), years_of_page(published, fetched_at))
        for page_id, title, reading, published, fetched_at in pages
    }
    headings: dict[UUID, Span] = {}
    for each in checked:
        reading = known[each.row.source_id][1]
        if reading and (heading := reading.heading_above(each.row.first_byte)) is not None:
            headings[each.row.id] = heading
    spans = [
        (each.row.source_id, headings[each.row.id]) for each in checked if each.row.id in headings
    ]
    texts = dict(zip(headings, await load_spans(session, spans), strict=True))
    passages = {}
    for each in checked:
        title, reading, years = known[each.row.source_id]
        heading_text, _ = texts.get(each.row.id, (b"", 0))
        passages[each.row.id] = Passage(
            each.quote.decode(errors="replace"),
            reading.language if reading else None,
            reading.decimal_sign if reading else None,
            title,
            heading_text.decode(errors="replace"),
            years,
        )
    return [replace(each, passage=passages.get(each.row.id)) for each in evidence]


def _parse_reading(value: Any) -> PageReading | None:
    """None if it was changed outside Vigil, which the seal of the page shows."""
    try:
        return PageReading.from_json({**value, "sentences": []})
    except (KeyError, TypeError, ValueError):
        return None


async def load_verdicts(
    session: AsyncSession, scope: GraphScope, evidence_ids: Iterable[UUID]
) -> dict[UUID, VerdictResponse]:
    """What a model found, by evidence; without evidence that was not checked."""
    verdicts: dict[UUID, VerdictResponse] = {}
    for batch in _batches(evidence_ids):
        rows = await session.scalars(
            select(EntailmentVerdict).where(
                EntailmentVerdict.agent_id == scope.owned_agent_id(),
                EntailmentVerdict.evidence_id.in_(batch),
            )
        )
        verdicts |= {row.evidence_id: VerdictResponse.model_validate(row) for row in rows}
    return verdicts


async def load_spans(
    session: AsyncSession, spans: Sequence[tuple[UUID | None, Span]]
) -> list[tuple[bytes, int]]:
    """The bytes of spans of pages, and the length of each page; empty and 0 where there is no page."""
    if not spans:
        return []
    rows = await session.execute(
        _SPANS_SQL,
        {
            "sources": [source_id for source_id, _ in spans],
            "first": [span.start_byte for _, span in spans],
            "end": [span.end_byte for _, span in spans],
        },
    )
    return [(bytes(words or b""), text_bytes or 0) for words, text_bytes in rows]


async def load_names(
    session: AsyncSession, scope: GraphScope, node_ids: Iterable[UUID]
) -> dict[UUID, list[str]]:
    """The names by which pages may call each node: those it has, and those of nodes that were merged with it."""
    names: defaultdict[UUID, list[str]] = defaultdict(list)
    agent_id = scope.owned_agent_id()
    merged_name = GraphMerge.merged_node["name"].astext
    for batch in _batches(node_ids):
        for statement in (
            select(GraphNode.id, GraphNode.name).where(
                GraphNode.agent_id == agent_id, GraphNode.id.in_(batch)
            ),
            select(GraphName.node_id, GraphName.name).where(
                GraphName.agent_id == agent_id, GraphName.node_id.in_(batch)
            ),
            select(GraphMerge.kept_id, merged_name).where(
                GraphMerge.agent_id == agent_id, GraphMerge.kept_id.in_(batch)
            ),
        ):
            for node_id, name in await session.execute(statement):
                names[node_id].append(name)
    return names


async def load_node_types(
    session: AsyncSession, scope: GraphScope, ids: Iterable[UUID]
) -> dict[UUID, str]:
    """The type by id, of the nodes that exist."""
    types: dict[UUID, str] = {}
    for batch in _batches(ids):
        rows = await session.execute(
            select(GraphNode.id, GraphNode.type).where(
                GraphNode.agent_id == scope.owned_agent_id(), GraphNode.id.in_(batch)
            )
        )
        types |= dict(rows.all())
    return types


async def load_current_ids(
    session: AsyncSession, scope: GraphScope, cited_ids: Collection[UUID]
) -> dict[UUID, UUID]:
    """The current id of each cited id: itself, or the element it was merged into."""
    redirected = await redirects.current_ids(session, scope, cited_ids)
    return {cited_id: redirected.get(cited_id, cited_id) for cited_id in cited_ids}


async def load_cited(
    session: AsyncSession, scope: GraphScope, conclusions: Iterable[NodeRow]
) -> CitedElements:
    """Load what these conclusions cite, under the ids by which they cite it."""
    cited_ids = {cited_id for row in conclusions for cited_id in cited_by(row).ids()}
    current = await load_current_ids(session, scope, cited_ids)
    current_ids = set(current.values())
    types = await load_node_types(session, scope, current_ids)
    edges = await EDGES.load(session, scope, current_ids)
    retracted = await _load_retracted(session, scope, current_ids)
    return CitedElements(
        {cited: types[element_id] for cited, element_id in current.items() if element_id in types},
        {cited for cited, element_id in current.items() if element_id in edges},
        {cited for cited, element_id in current.items() if element_id in retracted},
    )


async def _load_retracted(
    session: AsyncSession, scope: GraphScope, element_ids: Iterable[UUID]
) -> set[UUID]:
    """Those of the elements whose sources are all retracted."""
    retracted = set[UUID]()
    for batch in _batches(element_ids):
        is_about_any = or_(Evidence.node_id.in_(batch), Evidence.edge_id.in_(batch))
        retracted |= set(
            await session.scalars(
                select(_ELEMENT_ID)
                .join(Source, Source.id == Evidence.source_id)
                .where(Evidence.agent_id == scope.owned_agent_id(), is_about_any)
                .group_by(_ELEMENT_ID)
                .having(func.bool_and(Source.retracted_at.is_not(None)))
            )
        )
    return retracted


def _batches(ids: Iterable[UUID]) -> Iterator[list[UUID]]:
    remaining = iter(ids)
    while batch := list(islice(remaining, BATCH_SIZE)):
        yield batch
