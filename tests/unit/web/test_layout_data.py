"""The graph data for the explorer: each value once, in columns."""

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from services.api.resources.graph.elements import encode_drawing
from shared.schemas.graph import DrawnEdge, DrawnNode, GraphLayout

CREATED_AT = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
LATER = CREATED_AT + timedelta(hours=1)
MUCH_LATER = LATER + timedelta(seconds=7)


def make_layout(maker: UUID, metal: UUID) -> GraphLayout:
    return GraphLayout(
        nodes=[
            DrawnNode(maker, "Company", "Über & Söhne", LATER, MUCH_LATER, None),
            DrawnNode(metal, "Metal", "Lithium", CREATED_AT, CREATED_AT, CREATED_AT),
        ],
        edges=[
            DrawnEdge("buys", maker, metal, MUCH_LATER, 3),
            DrawnEdge("Metal", metal, maker, LATER),
        ],
        cut=True,
    )


def test_edges_refer_to_nodes_and_types_by_index_and_times_to_earlier_ones() -> None:
    maker, metal = uuid4(), uuid4()
    assert json.loads(encode_drawing(make_layout(maker, metal))) == {
        "types": ["Company", "Metal", "buys"],
        "ids": maker.hex + metal.hex,
        "kinds": [0, 1],
        "names": ["Über & Söhne", "Lithium"],
        "since": 1767323045678,
        "created": [3600, 0],
        "touched": [7, 0],
        "unsupported": [1],
        "from": [0, 1],
        "to": [1, 0],
        "via": [2, 1],
        "later": [7, 0],
        "sites": [3, 0],
        "paths": [],
        "cut": True,
    }


def test_paths_are_indices_of_nodes() -> None:
    maker, metal = uuid4(), uuid4()
    document = json.loads(encode_drawing(make_layout(maker, metal), [[metal, maker]]))
    assert document["paths"] == [[1, 0]]


def test_an_empty_drawing_has_no_columns() -> None:
    document = json.loads(encode_drawing(GraphLayout(nodes=[], edges=[], cut=False)))
    assert (document["ids"], document["names"], document["from"]) == ("", [], [])
