"""What the explorer is sent says all that it draws, each thing once."""

import json
from datetime import UTC, datetime
from uuid import uuid4

from services.api.web.presenters.graph import encode_drawing
from shared.schemas.graph import DrawingView, DrawnEdge, DrawnNode

AT = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)


def test_edges_name_their_ends_and_types_by_place() -> None:
    maker, metal = uuid4(), uuid4()
    picture = DrawingView(
        nodes=[
            DrawnNode(maker, "Company", "Über & Söhne", AT, None),
            DrawnNode(metal, "Metal", "Lithium", AT, AT),
        ],
        edges=[DrawnEdge("buys", maker, metal), DrawnEdge("Metal", metal, maker)],
        cut=True,
    )
    assert json.loads(encode_drawing(picture)) == {
        "types": ["Company", "Metal", "buys"],
        "nodes": [
            [str(maker), 0, "Über & Söhne", 1767323045678, 0],
            [str(metal), 1, "Lithium", 1767323045678, 1],
        ],
        "edges": [[0, 1, 2], [1, 0, 1]],
        "cut": True,
    }
