"""Schemas of the graph: nodes, edges, types, drawings, merges."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from shared.schemas.base import EdgeView, Json, NodeView, Page, View
from shared.schemas.provenance import CitingView, EvidenceView


class NodeDetails(NodeView):
    """A node with who made it, the newest conclusions that cite it, and the first pages of its edges and evidence."""

    iteration_id: UUID | None
    step_id: UUID | None
    names: list[str]
    """What else it is called, in other spellings too."""
    cited_by: list[CitingView]
    edges: Page[EdgeView]
    evidence: Page[EvidenceView]
    """What is true latest first; none of conclusions, which cite."""


class EdgeDetails(EdgeView):
    iteration_id: UUID | None
    step_id: UUID | None
    cited_by: list[CitingView]
    """The newest conclusions that do."""
    evidence: Page[EvidenceView]


class NeighbourhoodView(View):
    """What lies within so many edges of a node, the node itself first, and the edges among all of that.

    `cut` says that there is more: the edges touched last were followed first.
    """

    depth: int
    nodes: list[NodeView]
    edges: list[EdgeView]
    cut: bool


class TypeDetails(View):
    name: str
    description: str
    properties_schema: Json
    """JSON Schema of the properties; empty allows any."""
    created_by: str
    """`system`, or the phase that made it."""
    justification: str | None = None
    """Why no type that there was fitted; None where nobody was asked."""
    created_at: datetime
    example_properties: Json


class NodeTypeDetails(TypeDetails):
    pass


class EdgeTypeDetails(TypeDetails):
    source_types: list[str]
    """Node types that an edge may start from; empty means any."""
    target_types: list[str]


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
