"""A picture as the explorer is sent it: each type told once, and edges by the places of the nodes that they join. Pure."""

import json

from shared.store.reading.drawing_shapes import DrawingView


def drawn(picture: DrawingView) -> bytes:
    """JSON: `types`, `nodes` of [id, place of its type, name, when it was touched in ms, 1 where nothing supports it],
    `edges` of [place of its source, place of its target, place of its type], and whether it is `cut`.
    """
    types: dict[str, int] = {}
    nodes = [
        [
            str(node.id),
            types.setdefault(node.type, len(types)),
            node.name,
            int(node.updated_at.timestamp() * 1000),
            int(node.unsupported_since is not None),
        ]
        for node in picture.nodes
    ]
    places = {node.id: place for place, node in enumerate(picture.nodes)}
    edges = [
        [
            places[edge.source_id],
            places[edge.target_id],
            types.setdefault(edge.type, len(types)),
        ]
        for edge in picture.edges
    ]
    told = {"types": list(types), "nodes": nodes, "edges": edges, "cut": picture.cut}
    return json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()
