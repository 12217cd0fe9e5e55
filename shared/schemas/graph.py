"""Schemas of the graph: nodes, edges, types, drawings, merges."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from shared.schemas.base import EdgeView, Json, NodeView, Page, View
from shared.schemas.provenance import CitingView, EvidenceView


class NodeDetails(NodeView):
    """A node with its origin, the newest conclusions that cite it, and the first pages of its edges and evidence."""

    iteration_id: UUID | None
    step_id: UUID | None
    names: list[str]
    """Its other names and spellings."""
    cited_by: list[CitingView]
    edges: Page[EdgeView]
    evidence: Page[EvidenceView]
    """Newest `as_of` first; empty for conclusions, which cite instead."""


class EdgeDetails(EdgeView):
    iteration_id: UUID | None
    step_id: UUID | None
    cited_by: list[CitingView]
    """The newest conclusions that cite it."""
    evidence: Page[EvidenceView]


class NeighbourhoodView(View):
    """The nodes within `depth` edges of a node, itself first, and the edges among them.

    `cut`: there are more; recently updated edges were followed first.
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
    """`system`, or the phase that created it."""
    justification: str | None = None
    """Why no existing type fits; None if none was required."""
    created_at: datetime
    example_properties: Json


class NodeTypeDetails(TypeDetails):
    pass


class EdgeTypeDetails(TypeDetails):
    source_types: list[str]
    """Node types that an edge may start from; empty allows any."""
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
    """Nodes and the edges among them; `cut`: there is more than requested."""

    nodes: list[DrawnNode]
    edges: list[DrawnEdge]
    cut: bool


class NodeRef(View):
    id: UUID
    type: str
    name: str


class MergeView(View):
    """A node that was merged into another, and how much was moved."""

    id: UUID
    type: str
    kept_id: UUID
    kept_name: str | None
    """None if it has been merged into a third node since."""
    merged_id: UUID
    merged_name: str
    reason: str
    names: int
    evidence: int
    edges: int
    dropped_edges: int
    """Edges between the two, which would connect the node to itself."""
    made_at: datetime
    undone_at: datetime | None


class DuplicateView(View):
    """Two nodes of one type with similar names; `similarity` is 1 if the names differ only in spelling."""

    node: NodeRef
    other: NodeRef
    similarity: float
