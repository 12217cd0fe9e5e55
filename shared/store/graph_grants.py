"""Who may do what with what agents know: kinds of rights that `shared.store.grants` hands to actors."""

from typing import Final

from shared.store.rights import ALL, READ, Grant, Rows
from shared.store.words import ADVICE_TYPE, ANALYSIS_TYPE

SEEN: Final = {
    "graph_node_types": READ,
    "graph_edge_types": READ,
    "graph_nodes": READ,
    "graph_edges": READ,
    "graph_names": READ,
    "graph_merges": READ,
    "graph_moves": READ,
    "sources": READ,
    "evidence": READ,
    "investigation_requests": READ,
    "doubts": READ,
    "node_embeddings": READ,
}
"""Every phase is shown these of its agent."""
_CONCLUSIONS: Final = (ANALYSIS_TYPE, ADVICE_TYPE)
_CHANGED: Final = ("properties", "seal", "unsupported_since", "updated_at")


def concludes(type_name: str) -> dict[str, Grant]:
    return {
        "graph_nodes": Grant(ALL, insert=ALL, inserts=Rows("type", (type_name,))),
        "citations": Grant(insert=ALL),
    }


TYPES: Final = {
    "graph_node_types": Grant(ALL, insert=ALL),
    "graph_edge_types": Grant(ALL, insert=ALL),
}
SYSTEM_TYPES: Final = {
    **TYPES,
    "graph_node_types": Grant(
        ALL,
        insert=ALL,
        update=("properties_schema", "example_properties"),
        updates=Rows("name", _CONCLUSIONS),
    ),
}
"""And brings up to date what an older version gave the agent."""
EDGES: Final = {"graph_edges": Grant(ALL, insert=ALL, update=_CHANGED)}
_FACTS: Final = Rows("type", _CONCLUSIONS, but=True)
_PLACE: Final = ("through_at", "through_id")
FACTS: Final = {
    **EDGES,
    "graph_nodes": Grant(ALL, insert=ALL, update=_CHANGED, inserts=_FACTS, updates=_FACTS),
    "graph_names": Grant(ALL, insert=ALL),
    "sources": Grant(ALL, insert=ALL),
    "evidence": Grant(ALL, insert=ALL),
    "node_embeddings": Grant(
        ALL, insert=ALL, update=("model", "text_sha256", "meaning", "updated_at")
    ),
    "embedding_sweeps": Grant(ALL, insert=ALL, update=("model", *_PLACE)),
}
"""What pages say, and the pages."""
# Only people merge, through the api: what goes, and comes back when that is undone, are facts alone.
MERGED: Final = {
    "graph_nodes": Grant(
        ALL,
        insert=ALL,
        update=_CHANGED,
        delete=True,
        inserts=_FACTS,
        updates=_FACTS,
        deletes=_FACTS,
    ),
    "graph_edges": Grant(ALL, insert=ALL, update=_CHANGED, delete=True),
    "graph_names": Grant(ALL, insert=ALL, update=("node_id",)),
    "graph_merges": Grant(ALL, insert=ALL, update=("undone_at",)),
    "graph_moves": Grant(ALL, insert=ALL, delete=True),
    "embedding_sweeps": Grant(ALL, update=_PLACE),
    "evidence": Grant(ALL, insert=ALL, update=("id", "node_id", "edge_id", "seal"), delete=True),
}

# What a retraction changes is what follows from the evidence that is left; the evidence itself stays as it is.
RETRACTED: Final = {
    "sources": Grant(ALL, update=("retracted_at", "retracted_because")),
    "graph_nodes": Grant(ALL, update=_CHANGED, updates=_FACTS),
    "graph_edges": Grant(ALL, update=_CHANGED),
    "retractions": Grant(ALL, insert=ALL, update=("restored_at", "due_at")),
    "retracted_sources": Grant(ALL, insert=ALL, update=("is_due", "through")),
    "citations": Grant(ALL, insert=ALL),
    "doubts": Grant(ALL, insert=ALL, update=("since", "weighed_at", "cleared_at")),
}
