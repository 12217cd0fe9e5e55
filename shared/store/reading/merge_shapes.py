"""What people get to see of merges and of likely doubles, as frozen models."""

from datetime import datetime
from uuid import UUID

from shared.store.reading.shapes import View


class NodeRef(View):
    id: UUID
    type: str
    name: str


class MergeView(View):
    """One node that went into another, and how much of it moved there."""

    id: UUID
    type: str
    kept_id: UUID
    kept_name: str | None
    """None where it has gone into a third since."""
    gone_id: UUID
    gone_name: str
    reason: str
    names: int
    evidence: int
    edges: int
    dropped_edges: int
    """That joined the two, and would join the one with itself."""
    made_at: datetime
    undone_at: datetime | None


class DoubleView(View):
    """Two nodes of one type that are called alike; `likeness` is 1 where their names are the same but for spelling."""

    node: NodeRef
    other: NodeRef
    likeness: float
