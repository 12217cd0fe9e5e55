"""What the pages of nodes and of duplicates show: edges by type, histories, comparisons, cut texts."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from services.api.resources.graph.duplicates import ComparedEdge, ComparedNode, ComparedSource
from services.api.resources.graph.elements import MISSING, compare_nodes, group_edges, list_history
from shared.schemas.graph import DuplicatePair, NodeRef
from shared.schemas.provenance import ClaimResponse, EvidenceResponse
from tests.support.responses import edge, quote

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)


def make_quote(source_id: UUID, learned_at: datetime, **claims: Any) -> EvidenceResponse:
    made = [ClaimResponse(property=name, value=claims[name], holds=True) for name in claims]
    return quote(*made, source_id=source_id, learned_at=learned_at)


def test_edges_are_grouped_by_type_and_direction_the_largest_group_first() -> None:
    node, other = uuid4(), uuid4()
    edges = [
        edge("owns", node, other),
        edge("buys", other, node),
        edge("buys", node, other),
        edge("buys", other, node),
    ]
    groups = group_edges(node, edges)
    assert [(group.type, group.is_outgoing, len(group.edges)) for group in groups] == [
        ("buys", False, 2),
        ("buys", True, 1),
        ("owns", True, 1),
    ]


def test_a_history_has_an_entry_for_each_source_at_each_moment() -> None:
    source, other_source = uuid4(), uuid4()
    later = AT + timedelta(minutes=1)
    entries = list_history(
        [
            make_quote(source, AT, tonnes=40),
            make_quote(source, AT, motto="Dig"),
            make_quote(other_source, later),
        ]
    )
    assert [(entry.at, entry.source_id, entry.quotes) for entry in entries] == [
        (later, other_source, 1),
        (AT, source, 2),
    ]
    assert entries[1].values == [("tonnes", 40), ("motto", "Dig")]


def make_node(
    name: str,
    properties: dict[str, Any],
    edges: list[ComparedEdge] | None = None,
    sources: list[ComparedSource] | None = None,
) -> ComparedNode:
    return ComparedNode(uuid4(), name, properties, AT, [], edges or [], sources or [])


def make_pair(one: ComparedNode, other: ComparedNode) -> DuplicatePair:
    refs = [NodeRef(id=node.id, type="Maker", name=node.name) for node in (one, other)]
    return DuplicatePair(node=refs[0], other=refs[1], similarity=0.8)


def test_two_nodes_are_compared_row_by_row() -> None:
    shared_end, shared_source = uuid4(), ComparedSource(uuid4(), "https://a.example", None)
    edge = ComparedEdge("buys", True, shared_end, "Lithium")
    incoming = ComparedEdge("buys", False, shared_end, "Lithium")
    own_source = ComparedSource(uuid4(), "https://b.example", None)
    one = make_node(
        "Halden", {"tonnes": 1, "motto": "Dig", "zero": 0}, [edge], [shared_source, own_source]
    )
    other = make_node("Haldens", {"tonnes": 2, "zero": 0}, [edge, incoming], [shared_source])
    (comparison,) = compare_nodes([make_pair(one, other)], {one.id: one, other.id: other})
    assert [(row.name, row.one, row.other, row.is_different) for row in comparison.properties] == [
        ("tonnes", 1, 2, True),
        ("motto", "Dig", MISSING, False),
        ("zero", 0, 0, False),
    ]
    assert comparison.is_shared(edge)
    assert not comparison.is_shared(incoming)
    assert comparison.shared_sources == {shared_source.id}


def test_a_pair_of_which_a_node_is_gone_is_left_out() -> None:
    one, other = make_node("Halden", {}), make_node("Haldens", {})
    assert compare_nodes([make_pair(one, other)], {one.id: one}) == []
