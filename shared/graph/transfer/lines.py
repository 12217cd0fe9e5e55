"""The lines of an exported graph: their shapes, and what stands where.

The first says what it is, the last how many lines of each kind there were and the SHA-256 of all before it. Between
them stand types, then sources, then nodes (conclusions too), then edges: whatever a line speaks of stands before it, but
for what conclusions cite.
"""

from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from shared.graph.proof.rows import EdgeRow, EvidenceRow, NodeRow, Row, SourceRow

FORMAT: Final = "vigil-graph"
VERSION: Final = 1


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class AgentLine(_Line):
    id: UUID
    name: str
    mission: str
    interval_seconds: int
    models: dict[str, str]
    prompts: dict[str, str]


class Head(_Line):
    format: Literal["vigil-graph"] = FORMAT
    version: Literal[1] = VERSION
    exported_at: datetime
    agent: AgentLine


class NodeTypeLine(_Line):
    name: str
    description: str
    properties_schema: dict[str, Any]
    example_properties: dict[str, Any]
    justification: str | None = None
    created_by: str
    created_at: datetime


class EdgeTypeLine(NodeTypeLine):
    source_types: list[str]
    target_types: list[str]


class SourceLine(SourceRow):
    text: str


class DoubtLine(_Line):
    """That a conclusion is in doubt: of what it rests on, and because of which page."""

    thing_id: UUID
    source_id: UUID
    since: datetime


class NodeLine(NodeRow):
    evidence: list[EvidenceRow]
    earlier_ids: tuple[UUID, ...] = ()
    """By which conclusions may cite it too: of nodes that were merged into it."""
    names: dict[str, str] = Field(default_factory=dict)
    """All that it is called, by key: whoever writes of it by any of them writes to it."""
    doubts: tuple[DoubtLine, ...] = ()
    """Of a conclusion."""


class EdgeLine(EdgeRow):
    evidence: list[EvidenceRow]
    earlier_ids: tuple[UUID, ...] = ()


class Counts(_Line):
    node_types: int = 0
    edge_types: int = 0
    sources: int = 0
    nodes: int = 0
    edges: int = 0
    evidence: int = 0


class End(_Line):
    counts: Counts
    sha256: str
    """Of all lines before this one, with their ends, in hex."""


Content = NodeTypeLine | EdgeTypeLine | SourceLine | NodeLine | EdgeLine
"""What stands between head and end."""
KINDS: Final[dict[str, type[Content]]] = {
    "node_type": NodeTypeLine,
    "edge_type": EdgeTypeLine,
    "source": SourceLine,
    "node": NodeLine,
    "edge": EdgeLine,
}
"""By the word that each line begins with, in the order in which they stand: `{"node":{…}}`."""
END: Final = "end"


def line(kind: str, value: _Line | Row) -> bytes:
    return b'{"%s":%s}\n' % (kind.encode(), value.model_dump_json().encode())
