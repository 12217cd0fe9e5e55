"""Loads the rows of a graph in batches, without the texts of pages."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

from sqlalchemy import LargeBinary, Select, func, or_, select, text

from shared.database.pagination import Keyset
from shared.database.statements import CompiledStatement, uuid_array
from shared.database.tables import Evidence, GraphEdge, GraphNode, Source
from shared.database.transaction import Transaction
from shared.domains import host_of
from shared.enums import ADVICE_TYPE
from shared.graph.conclusions.citations import CitedElements, Kind
from shared.graph.entity_resolution import redirects
from shared.graph.grounding.passages import Cited, Page
from shared.graph.grounding.values import PUBLISHER_PROPERTIES
from shared.graph.provenance.integrity import EdgeRow, EvidenceRow, NodeRow, Row, SourceRow
from shared.graph.provenance.page_reading import PageReading, Span
from shared.graph.provenance.publishers import load_publishers
from shared.graph.provenance.verdicts import (
    IS_BY_MODEL_SQL,
    IS_DUE_SQL,
    READ_VALUES_SQL,
    REFUSED_SQL,
)
from shared.graph.scope import IS_OWNED_SQL, OWNED_AGENT_ID_SQL, GraphScope
from shared.graph.types import RESERVED_TYPES
from shared.graph.verification.checks import PositionRow, QuotedEvidence, cited_by
from shared.schemas.provenance import VerdictResponse
from shared.workflow.agent_clock import NOW_SQL

BATCH_SIZE: Final = 1000
"""Ids per statement."""
_TEXT_SHA256 = func.sha256(func.convert_to(Source.text, "UTF8"), type_=LargeBinary)
"""Computed by PostgreSQL, so that the text need not be transferred."""
_EVIDENCE_FIELDS: Final = len(EvidenceRow.model_fields)


def _evidence_sql(column: str) -> str:
    return f"""
select evidence.id, {column}, source_id, first_byte, end_byte, quote_sha256, claims, valid_from, valid_to, as_of,
  learned_at, rules, speaker, evidence.seal,
  -- At most the length of the text: a sum beyond the integer range would be an error.
  coalesce(substring(bytes, least(first_byte, length) + 1, least(end_byte - first_byte, length)), ''),
  coalesce(length, 0), page.id is not null, coalesce(is_retracted, false),
  exists (select from retracted_sources where source_id = evidence.source_id and is_due)
    or exists (select from validity_boundaries where evidence_id = evidence.id and due_at <= {NOW_SQL})
    or exists (select from entailment_verdicts where evidence_id = evidence.id and {IS_DUE_SQL}),
  step_id, coalesce(url, ''), published, {NOW_SQL}, {REFUSED_SQL}
from evidence left join lateral (
  -- Once for each row: the text of a page may be compressed.
  select id, url, published, bytes, octet_length(bytes) as length, is_retracted from (
    select id, url, published, convert_to(text, 'UTF8') as bytes, retracted_at is not null as is_retracted
    from sources where sources.id = evidence.source_id and {IS_OWNED_SQL} offset 0
  ) as whole
) as page on true
where {column} = any(cast(:ids as uuid[])) and {IS_OWNED_SQL}
order by as_of, learned_at, evidence.id
"""


_EVIDENCE: Final = {
    Kind.NODE: CompiledStatement(_evidence_sql("node_id")),
    Kind.EDGE: CompiledStatement(_evidence_sql("edge_id")),
}
_PAGES: Final = CompiledStatement(f"""
select id, url, title, case jsonb_typeof(reading) when 'object' then
  -- Sentences are many, and are not needed.
  reading - 'sentences' end,
  published, fetched_at
from sources where id = any(cast(:ids as uuid[])) and {IS_OWNED_SQL}
""")
_VERDICTS: Final = CompiledStatement(f"""
select evidence_id, name, verdict, reason, model, call_id, read.created_at
from evidence cross join lateral ({READ_VALUES_SQL}) as read
where evidence.id = any(cast(:ids as uuid[])) and (evidence.agent_id = {OWNED_AGENT_ID_SQL}) is true
  and {IS_BY_MODEL_SQL}
order by evidence_id, name
""")
_POSITIONS: Final = CompiledStatement(f"""
select advice_id, subject, confidence, horizon, confirmations, ended_at, replaced_by, reason,
  coalesce(properties ->> 'action', ''),
  exists (select from graph_nodes as newer where newer.id = replaced_by and newer.type = '{ADVICE_TYPE}'
    and newer.agent_id = positions.agent_id)
from positions join graph_nodes on graph_nodes.id = advice_id
where (ended_at is null or advice_id = any(cast(:ids as uuid[]))) and positions.agent_id = {OWNED_AGENT_ID_SQL}
""")
_NAMES: Final = CompiledStatement(f"""
select id, name from graph_nodes where id = any(cast(:ids as uuid[])) and {IS_OWNED_SQL}
union all
select node_id, name from graph_names where node_id = any(cast(:ids as uuid[])) and {IS_OWNED_SQL}
union all
select kept_id, merged_node ->> 'name' from graph_merges where kept_id = any(cast(:ids as uuid[])) and {IS_OWNED_SQL}
""")
_TYPES: Final = CompiledStatement(
    f"select id, type from graph_nodes where id = any(cast(:ids as uuid[])) and {IS_OWNED_SQL}"
)
_SPANS_SQL = text(
    "select substring(convert_to(sources.text, 'UTF8'),"
    " least(first_byte, octet_length(sources.text)) + 1,"
    " least(end_byte - first_byte, octet_length(sources.text))), octet_length(sources.text)"
    " from unnest(cast(:sources as uuid[]), cast(:first as int[]), cast(:end as int[]))"
    " with ordinality as wanted (source_id, first_byte, end_byte, place)"
    " left join sources on sources.id = source_id order by place"
)
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
    return model.from_columns(columns)


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

    def select_keys(self, scope: GraphScope) -> Select[*tuple[Any, ...]]:
        return select(*self.order.columns).where(self.table.agent_id == scope.owned_agent_id())

    def row(self, columns: Iterable[Any]) -> R:
        """From a row of `select`."""
        return build_row(self.model, columns)

    async def load(
        self, transaction: Transaction, scope: GraphScope, ids: Iterable[UUID]
    ) -> dict[UUID, R]:
        """The rows that exist, by id."""
        rows: dict[UUID, R] = {}
        for batch in _batches(ids):
            statement = self.select(scope).where(self.table.id.in_(batch))
            rows |= {row[0]: self.row(row) for row in await transaction.execute(statement)}
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


def select_conclusions(scope: GraphScope) -> Select[*tuple[Any, ...]]:
    """The rows of NODES that are conclusions."""
    return NODES.select(scope).where(GraphNode.type.in_(sorted(RESERVED_TYPES)))


async def load_evidence(
    transaction: Transaction, scope: GraphScope, kind: Kind, element_ids: Iterable[UUID]
) -> dict[UUID, list[QuotedEvidence]]:
    """All evidence of these nodes or edges by their id, with the quoted bytes."""
    by_element: defaultdict[UUID, list[QuotedEvidence]] = defaultdict(list)
    for batch in _batches(element_ids):
        params = {**scope.sql_params, "ids": uuid_array(batch)}
        evidence = [
            QuotedEvidence(
                EvidenceRow.from_columns(columns[:_EVIDENCE_FIELDS]), *columns[_EVIDENCE_FIELDS:]
            )
            for columns in await _EVIDENCE[kind].tuples(transaction, params)
        ]
        cited = await _load_cited(transaction, scope, evidence)
        for quoted in evidence:
            by_element[quoted.row.element_id].append(
                quoted._replace(cited=cited.get(quoted.row.id))
            )
    return by_element


async def _load_cited(
    transaction: Transaction, scope: GraphScope, evidence: Iterable[QuotedEvidence]
) -> dict[UUID, Cited]:
    """The sentences that rules have checked, by the id of the evidence, without the texts of their pages."""
    checked = [each for each in evidence if each.row.rules is not None and each.has_source]
    if not checked:
        return {}
    page_ids = {each.row.source_id for each in checked}
    rows = await _PAGES.tuples(transaction, {**scope.sql_params, "ids": uuid_array(page_ids)})
    readings = {page_id: _parse_reading(reading) for page_id, _, _, reading, _, _ in rows}
    hosts = {page_id: host_of(url) or "" for page_id, url, *_ in rows}
    has_publisher = any(
        name in each.row.claims for each in checked for name in PUBLISHER_PROPERTIES
    )
    publishers = await load_publishers(transaction, scope, hosts.values()) if has_publisher else {}
    pages = {
        page_id: Page(
            title or "",
            hosts[page_id],
            published=published.date() if published else None,
            language=reading.language if (reading := readings[page_id]) else None,
            decimal_sign=reading.decimal_sign if reading else None,
            read_in=fetched_at.year,
            publisher=publishers.get(hosts[page_id]),
        )
        for page_id, _, title, _, published, fetched_at in rows
    }
    headings: dict[UUID, Span] = {}
    for each in checked:
        reading = readings[each.row.source_id]
        if reading and (heading := reading.heading_above(each.row.first_byte)) is not None:
            headings[each.row.id] = heading
    spans = [
        (each.row.source_id, headings[each.row.id]) for each in checked if each.row.id in headings
    ]
    texts = dict(zip(headings, await load_spans(transaction, spans), strict=True))
    return {
        each.row.id: Cited(
            pages[each.row.source_id],
            each.quote.decode(errors="replace"),
            texts.get(each.row.id, (b"", 0))[0].decode(errors="replace"),
        )
        for each in checked
    }


def _parse_reading(value: Any) -> PageReading | None:
    """None if it was changed outside Vigil, which the seal of the page shows."""
    try:
        return PageReading.from_json({**value, "sentences": []})
    except (KeyError, TypeError, ValueError):
        return None


async def load_verdicts(
    transaction: Transaction, scope: GraphScope, evidence_ids: Iterable[UUID]
) -> dict[UUID, dict[str, VerdictResponse]]:
    """What a model found, by evidence and the name of the value; without evidence that was not read."""
    verdicts: defaultdict[UUID, dict[str, VerdictResponse]] = defaultdict(dict)
    for batch in _batches(evidence_ids):
        rows = await _VERDICTS.tuples(transaction, {**scope.sql_params, "ids": uuid_array(batch)})
        for evidence_id, name, verdict, reason, model, call_id, created_at in rows:
            verdicts[evidence_id][name] = VerdictResponse(
                verdict=verdict, reason=reason, model=model, call_id=call_id, created_at=created_at
            )
    return verdicts


async def load_positions(
    transaction: Transaction, scope: GraphScope, advice_ids: Iterable[UUID]
) -> dict[UUID, PositionRow]:
    """The positions of this advice, and all of the agent that have not ended, by advice."""
    params = {**scope.sql_params, "ids": uuid_array(advice_ids)}
    rows = [PositionRow(*row) for row in await _POSITIONS.tuples(transaction, params)]
    return {row.advice_id: row for row in rows}


async def load_spans(
    transaction: Transaction, spans: Sequence[tuple[UUID | None, Span]]
) -> list[tuple[bytes, int]]:
    """The bytes of spans of pages, and the length of each page; empty and 0 where there is no page."""
    if not spans:
        return []
    rows = await transaction.execute(
        _SPANS_SQL,
        {
            "sources": [source_id for source_id, _ in spans],
            "first": [span.start_byte for _, span in spans],
            "end": [span.end_byte for _, span in spans],
        },
    )
    return [(bytes(words or b""), text_bytes or 0) for words, text_bytes in rows]


async def load_names(
    transaction: Transaction, scope: GraphScope, node_ids: Iterable[UUID]
) -> dict[UUID, list[str]]:
    """The names by which pages may call each node: those it has, and those of nodes that were merged with it."""
    names: defaultdict[UUID, list[str]] = defaultdict(list)
    for batch in _batches(node_ids):
        params = {**scope.sql_params, "ids": uuid_array(batch)}
        for node_id, name in await _NAMES.tuples(transaction, params):
            names[node_id].append(name)
    return names


async def load_node_types(
    transaction: Transaction, scope: GraphScope, ids: Iterable[UUID]
) -> dict[UUID, str]:
    """The type by id, of the nodes that exist."""
    types: dict[UUID, str] = {}
    for batch in _batches(ids):
        rows = await _TYPES.tuples(transaction, {**scope.sql_params, "ids": uuid_array(batch)})
        types |= dict(rows)
    return types


async def load_current_ids(
    transaction: Transaction, scope: GraphScope, cited_ids: Collection[UUID]
) -> dict[UUID, UUID]:
    """The current id of each cited id: itself, or the element it was merged into."""
    redirected = await redirects.current_ids(transaction, scope, cited_ids)
    return {cited_id: redirected.get(cited_id, cited_id) for cited_id in cited_ids}


async def load_cited(
    transaction: Transaction, scope: GraphScope, conclusions: Iterable[NodeRow]
) -> CitedElements:
    """Load what these conclusions cite, under the ids by which they cite it."""
    cited_ids = {cited_id for row in conclusions for cited_id in cited_by(row).ids()}
    current = await load_current_ids(transaction, scope, cited_ids)
    current_ids = set(current.values())
    types = await load_node_types(transaction, scope, current_ids)
    edges = await EDGES.load(transaction, scope, current_ids)
    retracted = await _load_retracted(transaction, scope, current_ids)
    return CitedElements(
        {cited: types[element_id] for cited, element_id in current.items() if element_id in types},
        {cited for cited, element_id in current.items() if element_id in edges},
        {cited for cited, element_id in current.items() if element_id in retracted},
    )


async def _load_retracted(
    transaction: Transaction, scope: GraphScope, element_ids: Iterable[UUID]
) -> set[UUID]:
    """Those of the elements whose sources are all retracted."""
    retracted = set[UUID]()
    for batch in _batches(element_ids):
        is_about_any = or_(Evidence.node_id.in_(batch), Evidence.edge_id.in_(batch))
        retracted |= set(
            await transaction.scalars(
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
