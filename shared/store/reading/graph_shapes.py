"""What people get to see of a graph beyond its overview, as frozen models."""

from datetime import datetime
from uuid import UUID

from shared.store.reading.evidence_shapes import EvidenceView
from shared.store.reading.page import Page
from shared.store.reading.retraction_shapes import CitingView
from shared.store.reading.shapes import EdgeView, Json, NodeView, View


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
