"""The pages that agents have read, and what rests on them."""

from collections.abc import Iterable
from uuid import UUID

from cli.client.connection import Connection, agent_path
from shared.store.reading.evidence_shapes import SourceDetails, SourceView
from shared.store.reading.graph_shapes import EdgeDetails


class OfEvidence(Connection):
    def sources(
        self, reference: str, limit: int | None = 50, *, url: str | None = None
    ) -> Iterable[SourceView]:
        return self._pages(SourceView, f"{agent_path(reference)}/sources", limit, url=url)

    def source(self, reference: str, source_id: UUID) -> SourceDetails:
        return self._ask(SourceDetails, "GET", f"{agent_path(reference)}/sources/{source_id}")

    def edge(self, reference: str, edge_id: UUID) -> EdgeDetails:
        return self._ask(EdgeDetails, "GET", f"{agent_path(reference)}/edges/{edge_id}")
