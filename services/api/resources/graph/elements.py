"""What the pages of the graph show: drawings, edges by type, provenance, histories, comparisons. Pure."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from services.api.resources.graph.duplicates import ComparedEdge, ComparedNode
from shared.hidden_text import without_hidden
from shared.schemas.base import EdgeResponse, Json
from shared.schemas.graph import DuplicatePair, GraphLayout
from shared.schemas.provenance import ClaimResponse, EvidenceResponse


def encode_drawing(picture: GraphLayout, paths: Sequence[Sequence[UUID]] = ()) -> bytes:
    """Encodes a drawing as JSON, in columns, which compress to half of what rows do.

    Of nodes: `ids` (32 hexadecimal digits each, in one string), `kinds` (indices of `types`), `names`, `created` (seconds
    after `since`, which is in ms), `touched` (seconds after their creation), and `unsupported`, the indices of those
    without support. Of edges: `from` and `to` (indices of nodes), `via` (indices of `types`), `later` (seconds after the
    creation of the newer end), and `sites` (how many support it; 0 where they were not counted). `paths` are indices of
    nodes. `cut`: nodes were left out.
    """
    types: dict[str, int] = {}
    since = min((node.created_at for node in picture.nodes), default=None)
    places = {node.id: place for place, node in enumerate(picture.nodes)}
    created = [_seconds(since, node.created_at) for node in picture.nodes]
    document = {
        "ids": "".join(node.id.hex for node in picture.nodes),
        "kinds": [types.setdefault(node.type, len(types)) for node in picture.nodes],
        "names": [without_hidden(node.name) for node in picture.nodes],
        "since": 0 if since is None else int(since.timestamp() * 1000),
        "created": created,
        "touched": [_seconds(node.created_at, node.updated_at) for node in picture.nodes],
        "unsupported": [
            place for place, node in enumerate(picture.nodes) if node.unsupported_since is not None
        ],
        "from": [places[edge.source_id] for edge in picture.edges],
        "to": [places[edge.target_id] for edge in picture.edges],
        "via": [types.setdefault(edge.type, len(types)) for edge in picture.edges],
        "later": [
            max(
                0,
                _seconds(since, edge.created_at)
                - max(created[places[edge.source_id]], created[places[edge.target_id]]),
            )
            for edge in picture.edges
        ],
        "sites": [edge.sites for edge in picture.edges],
        "types": list(types),
        "paths": [[places[node_id] for node_id in path] for path in paths],
        "cut": picture.cut,
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def _seconds(start: datetime | None, end: datetime) -> int:
    return 0 if start is None else max(0, round((end - start).total_seconds()))


_LIMIT_WORDS: Final[Mapping[str, str]] = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "pattern": "like {}",
    "format": "as {}",
    "const": "always {}",
}


class PropertyRow(NamedTuple):
    name: str
    kind: str
    is_required: bool
    description: str
    limits: str


def property_rows(schema: Json) -> list[PropertyRow]:
    """Returns the properties of a schema as rows; none if it lists no properties."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict):
        return []
    rows = []
    for name, each in properties.items():
        is_required = isinstance(required, list) and name in required
        if isinstance(each, dict):
            limits = [
                words.format(each[limit]) for limit, words in _LIMIT_WORDS.items() if limit in each
            ]
            description = str(each.get("description", ""))
            row = PropertyRow(name, _kind(each), is_required, description, ", ".join(limits))
        else:
            row = PropertyRow(name, "anything", is_required, "", "")
        rows.append(row)
    return rows


def _kind(schema: Mapping[str, Any]) -> str:
    if isinstance(schema.get("enum"), list):
        return "one of " + ", ".join(map(str, schema["enum"]))
    kind = schema.get("type", "anything")
    words = " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind)
    items = schema.get("items")
    if words == "array" and isinstance(items, dict):
        return f"list of {_kind(items)}"
    return words


@dataclass(frozen=True)
class EdgeGroup:
    """Edges of one node of one type and direction."""

    type: str
    is_outgoing: bool
    edges: Sequence[EdgeResponse]


def group_edges(node_id: UUID, edges: Iterable[EdgeResponse]) -> list[EdgeGroup]:
    """Groups the edges of a node, the largest group first."""
    groups: defaultdict[tuple[str, bool], list[EdgeResponse]] = defaultdict(list)
    for edge in edges:
        groups[edge.type, edge.source_id == node_id].append(edge)
    order = sorted(groups, key=lambda key: (-len(groups[key]), key[0], not key[1]))
    return [EdgeGroup(*key, groups[key]) for key in order]


@dataclass(frozen=True)
class ClaimedQuote:
    claim: ClaimResponse
    quote: EvidenceResponse


@dataclass
class PropertyProvenance:
    """The provenance of one property.

    `holding` is empty where no listed quote supports the current value.
    """

    name: str
    value: Any
    holding: list[ClaimedQuote] = field(default_factory=list)
    superseded: list[ClaimedQuote] = field(default_factory=list)


@dataclass(frozen=True)
class ElementProvenance:
    properties: Sequence[PropertyProvenance]
    plain: Sequence[EvidenceResponse]
    """Quotes that support the element itself, without a property."""


def property_provenance(
    properties: Json, evidence: Iterable[EvidenceResponse]
) -> ElementProvenance:
    """Groups evidence by property. `evidence` is sorted by valid time, latest first.

    A quote of the current value supports it too.
    """
    by_name = {name: PropertyProvenance(name, value) for name, value in properties.items()}
    plain: list[EvidenceResponse] = []
    for quote in evidence:
        if not quote.claims:
            plain.append(quote)
        for claim in quote.claims:
            provenance = by_name.setdefault(
                claim.property, PropertyProvenance(claim.property, None)
            )
            agrees = claim.value == provenance.value and quote.retracted_at is None
            if claim.upcoming and not claim.holds:  # shown with the day on which it begins
                continue
            claims = provenance.holding if claim.holds or agrees else provenance.superseded
            claims.append(ClaimedQuote(claim, quote))
    return ElementProvenance(list(by_name.values()), plain)


@dataclass(frozen=True)
class HistoryEntry:
    """What was learned from one source at one moment."""

    at: datetime
    source_id: UUID
    url: str
    title: str | None
    quotes: int
    values: Sequence[tuple[str, Any]]
    retracted_at: datetime | None


def list_history(evidence: Iterable[EvidenceResponse]) -> list[HistoryEntry]:
    """What was learned of a node or an edge, the newest first."""
    by_source: defaultdict[tuple[datetime, UUID], list[EvidenceResponse]] = defaultdict(list)
    for quote in evidence:
        by_source[quote.learned_at.replace(microsecond=0), quote.source_id].append(quote)
    return [
        HistoryEntry(
            at=at,
            source_id=source_id,
            url=quotes[0].url,
            title=quotes[0].title,
            quotes=len(quotes),
            values=[(claim.property, claim.value) for quote in quotes for claim in quote.claims],
            retracted_at=quotes[0].retracted_at,
        )
        for (at, source_id), quotes in sorted(
            by_source.items(), key=lambda item: (-item[0][0].timestamp(), str(item[0][1]))
        )
    ]


@dataclass(frozen=True)
class ComparedRow:
    """One aspect of two nodes. `is_different`: both have it, and it is not the same."""

    name: str
    one: Any
    other: Any
    is_different: bool


MISSING: Final = object()
"""The value of a property that a node does not have."""


@dataclass(frozen=True)
class Comparison:
    """Two nodes side by side, row by row."""

    pair: DuplicatePair
    one: ComparedNode
    other: ComparedNode
    properties: Sequence[ComparedRow]
    shared_edges: frozenset[tuple[str, bool, UUID]]
    shared_sources: frozenset[UUID]

    def is_shared(self, edge: ComparedEdge) -> bool:
        return (edge.type, edge.is_outgoing, edge.other_id) in self.shared_edges


def compare_nodes(
    pairs: Iterable[DuplicatePair], nodes: Mapping[UUID, ComparedNode]
) -> list[Comparison]:
    """Compares the nodes of each pair; pairs of which a node is gone meanwhile are left out."""
    return [
        _comparison(pair, nodes[pair.node.id], nodes[pair.other.id])
        for pair in pairs
        if pair.node.id in nodes and pair.other.id in nodes
    ]


def _comparison(pair: DuplicatePair, one: ComparedNode, other: ComparedNode) -> Comparison:
    rows = []
    for name in dict.fromkeys([*one.properties, *other.properties]):
        value, other_value = (node.properties.get(name, MISSING) for node in (one, other))
        has_both = value is not MISSING and other_value is not MISSING
        is_different = has_both and value != other_value
        rows.append(ComparedRow(name, value, other_value, is_different))
    ends = [
        {(edge.type, edge.is_outgoing, edge.other_id) for edge in x.edges} for x in (one, other)
    ]
    sources = [{source.id for source in node.sources} for node in (one, other)]
    return Comparison(
        pair,
        one,
        other,
        rows,
        frozenset.intersection(*map(frozenset, ends)),
        frozenset(sources[0] & sources[1]),
    )
