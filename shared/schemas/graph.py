"""Schemas of the graph: nodes, edges, types, drawings, merges."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from shared.schemas.base import EdgeResponse, Json, NodeResponse, Page, ResponseModel
from shared.schemas.provenance import AgreementResponse, CitingConclusion, EvidenceResponse


class NodeDetails(NodeResponse):
    """A node with its origin, the newest conclusions that cite it, and the first pages of its edges and evidence."""

    iteration_id: UUID | None
    step_id: UUID | None
    names: list[str]
    """Its other names and spellings."""
    cited_by: list[CitingConclusion]
    edges: Page[EdgeResponse]
    evidence: Page[EvidenceResponse]
    """Newest `as_of` first; empty for conclusions, which cite instead."""
    agreement: dict[str, AgreementResponse]
    """By property, over all evidence."""


class EdgeDetails(EdgeResponse):
    iteration_id: UUID | None
    step_id: UUID | None
    cited_by: list[CitingConclusion]
    """The newest conclusions that cite it."""
    evidence: Page[EvidenceResponse]
    agreement: dict[str, AgreementResponse]
    """By property, over all evidence."""


class NeighbourhoodResponse(ResponseModel):
    """The nodes within `depth` edges of a node, itself first, and the edges among them.

    `cut`: there are more; recently updated edges were followed first.
    """

    depth: int
    nodes: list[NodeResponse]
    edges: list[EdgeResponse]
    cut: bool


class TypeDetails(ResponseModel):
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
    created_at: datetime
    updated_at: datetime
    unsupported_since: datetime | None


class DrawnEdge(NamedTuple):
    type: str
    source_id: UUID
    target_id: UUID
    created_at: datetime
    sites: int = 0
    """How many sites support it; 0 also where they were not counted."""


@dataclass(frozen=True)
class GraphLayout:
    """Nodes and the edges among them; `cut`: there is more than requested."""

    nodes: list[DrawnNode]
    edges: list[DrawnEdge]
    cut: bool


class NodeRef(ResponseModel):
    id: UUID
    type: str
    name: str


class MergeResponse(ResponseModel):
    """A node that was merged into another, and how much was moved; or a node that was split off (`is_split`).

    A split is a merge that was undone when it was made: two things had been one node by mistake.
    """

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
    """Edges between the two that were removed, by a merge of an earlier version. Now they are kept as history."""
    left_out: Json
    """Properties of the merged node that the type of the kept one does not allow. They come back if the merge is undone."""
    made_at: datetime
    undone_at: datetime | None
    is_split: bool


class DuplicatePair(ResponseModel):
    """Two nodes of one type with similar names; `similarity` is 1 if the names differ only in spelling."""

    node: NodeRef
    other: NodeRef
    similarity: float


class DistinctPairResponse(ResponseModel):
    """Two nodes that are not the same, though their names are similar. They are not listed as duplicates."""

    id: UUID
    one: NodeRef
    other: NodeRef
    made_at: datetime
