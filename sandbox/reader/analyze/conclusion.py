"""What an analysis says."""

from dataclasses import dataclass
from typing import Literal

from sandbox.reader.graph_view import ViewEdge, ViewNode


@dataclass(frozen=True, slots=True)
class Conclusion:
    """`content` cites every node and edge it stands on."""

    name: str
    type: Literal["observation", "pattern"]
    summary: str
    content: str
    confidence: float
    node_ids: tuple[str, ...]


def cite(node: ViewNode) -> str:
    """A node as an analysis cites it."""
    return f"[node:{node.id}]"


def cite_edge(edge: ViewEdge) -> str:
    """An edge as an analysis cites it."""
    return f"[edge:{edge.id}]"
