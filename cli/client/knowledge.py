"""What agents know and conclude."""

from collections.abc import Iterable
from uuid import UUID

from cli.client.connection import Connection, agent_path
from shared.store.reading.configuring_shapes import (
    TypesView,
)
from shared.store.reading.graph_shapes import (
    EdgeDetails,
    EdgeTypeDetails,
    NeighbourhoodView,
    NodeDetails,
    NodeTypeDetails,
)
from shared.store.reading.investigation_shapes import InvestigationRequestView
from shared.store.reading.shapes import (
    ConclusionView,
    EdgeView,
    GraphView,
    NodeView,
)


class Knowledge(Connection):
    def graph(self, reference: str, *, type_name: str | None = None, limit: int = 100) -> GraphView:
        params = {"limit": limit} | ({"type": type_name} if type_name else {})
        return self._ask(GraphView, "GET", f"{agent_path(reference)}/graph", params=params)

    def nodes(
        self, reference: str, limit: int | None = 50, **filters: str | None
    ) -> Iterable[NodeView]:
        """`filters`: type, search, updated_since."""
        return self._pages(NodeView, f"{agent_path(reference)}/nodes", limit, **filters)

    def edges(
        self, reference: str, limit: int | None = 50, **filters: str | None
    ) -> Iterable[EdgeView]:
        """`filters`: type, source_id, target_id, node_id, updated_since."""
        return self._pages(EdgeView, f"{agent_path(reference)}/edges", limit, **filters)

    def neighbourhood(
        self, reference: str, node_id: UUID, *, depth: int, limit: int
    ) -> NeighbourhoodView:
        path = f"{agent_path(reference)}/nodes/{node_id}/neighbourhood"
        params = {"depth": depth, "limit": limit}
        return self._ask(NeighbourhoodView, "GET", path, params=params)

    def node(self, reference: str, node_id: UUID) -> NodeDetails:
        return self._ask(NodeDetails, "GET", f"{agent_path(reference)}/nodes/{node_id}")

    def types(self, reference: str) -> TypesView:
        return TypesView(
            node_types=list(self.node_types(reference)), edge_types=list(self.edge_types(reference))
        )

    def edge(self, reference: str, edge_id: UUID) -> EdgeDetails:
        return self._ask(EdgeDetails, "GET", f"{agent_path(reference)}/edges/{edge_id}")

    def node_types(self, reference: str) -> Iterable[NodeTypeDetails]:
        return self._pages(NodeTypeDetails, f"{agent_path(reference)}/node-types", None)

    def edge_types(self, reference: str) -> Iterable[EdgeTypeDetails]:
        return self._pages(EdgeTypeDetails, f"{agent_path(reference)}/edge-types", None)

    def analyses(self, reference: str, limit: int | None = 100) -> Iterable[ConclusionView]:
        return self._pages(ConclusionView, f"{agent_path(reference)}/analyses", limit)

    def advice(self, reference: str, limit: int | None = 100) -> Iterable[ConclusionView]:
        return self._pages(ConclusionView, f"{agent_path(reference)}/advice", limit)

    def investigations(
        self, reference: str, *, only_open: bool = False, limit: int | None = 100
    ) -> Iterable[InvestigationRequestView]:
        path = f"{agent_path(reference)}/investigation-requests"
        wanted = "true" if only_open else None
        return self._pages(InvestigationRequestView, path, limit, open=wanted)

    def conclusion(self, reference: str, kind: str, node_id: UUID) -> ConclusionView:
        """`kind` is `analyses` or `advice`."""
        return self._ask(ConclusionView, "GET", f"{agent_path(reference)}/{kind}/{node_id}")
