"""What people are told of graphs that were taken away or brought back, as frozen models."""

from uuid import UUID

from shared.store.reading.shapes import View


class ExportedFile(View):
    file: str
    format: str
    bytes: int


class ImportedCounts(View):
    node_types: int
    edge_types: int
    sources: int
    nodes: int
    """Conclusions too."""
    edges: int
    evidence: int


class ImportedAgent(View):
    agent_id: UUID
    name: str
    counts: ImportedCounts
