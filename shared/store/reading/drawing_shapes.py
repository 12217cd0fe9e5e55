"""What a picture of a graph is made of, as frozen models: little of each thing, for there are many."""

from datetime import datetime
from uuid import UUID

from shared.store.reading.shapes import View


class DrawnNode(View):
    id: UUID
    type: str
    name: str
    updated_at: datetime
    unsupported_since: datetime | None = None


class DrawnEdge(View):
    id: UUID
    type: str
    source_id: UUID
    target_id: UUID


class DrawingView(View):
    """Nodes, and edges among them; `cut` says that there is more of what was asked for."""

    nodes: list[DrawnNode]
    edges: list[DrawnEdge]
    cut: bool
