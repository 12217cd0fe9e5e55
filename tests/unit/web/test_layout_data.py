"""The graph data for the explorer contains each value once."""

import json
from datetime import UTC, datetime
from uuid import uuid4

from services.api.web.presenters.graph import encode_drawing
from shared.schemas.graph import DrawnEdge, DrawnNode, GraphLayout

UPDATED_AT = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)


def test_edges_refer_to_nodes_and_types_by_index() -> None:
    maker, metal = uuid4(), uuid4()
    layout = GraphLayout(
        nodes=[
            DrawnNode(maker, "Company", "Über & Söhne", UPDATED_AT, None),
            DrawnNode(metal, "Metal", "Lithium", UPDATED_AT, UPDATED_AT),
        ],
        edges=[DrawnEdge("buys", maker, metal), DrawnEdge("Metal", metal, maker)],
        cut=True,
    )
    assert json.loads(encode_drawing(layout)) == {
        "types": ["Company", "Metal", "buys"],
        "nodes": [
            [str(maker), 0, "Über & Söhne", 1767323045678, 0],
            [str(metal), 1, "Lithium", 1767323045678, 1],
        ],
        "edges": [[0, 1, 2], [1, 0, 1]],
        "cut": True,
    }
