"""What a picture of a graph is made of: little of each thing, for there are many."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID


class DrawnNode(NamedTuple):
    id: UUID
    type: str
    name: str
    updated_at: datetime
    unsupported_since: datetime | None


class DrawnEdge(NamedTuple):
    type: str
    source_id: UUID
    target_id: UUID


@dataclass(frozen=True)
class DrawingView:
    """Nodes, and edges among them; `cut` says that there is more of what was asked for."""

    nodes: list[DrawnNode]
    edges: list[DrawnEdge]
    cut: bool
