"""Runs several tools of one answer that write facts: one round trip for what they look up, one for what they insert."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from shared.database import locks
from shared.database.statements import PendingResult, RoundTrip, set_buffer
from shared.graph import edges, types
from shared.graph.entity_resolution import aliases
from shared.graph.entity_resolution.aliases import NameRequest
from shared.graph.provenance import sources
from shared.graph.scope import GraphScope
from shared.graph.tools.references import referenced_id
from shared.graph.tools.write_tools import AddGraphEdge, AddGraphNode
from shared.graph.upsert import ElementBuffer
from shared.graph.validation import normalize_name
from shared.tools import Arguments, ToolRefusalError


@dataclass(frozen=True)
class WriteBatch:
    """A `shared.tools.Batch`.

    What the tools look up is read before the first of them runs, under the locks that they need. What cannot be known
    before, such as a node that is given by its name, they read by themselves.
    """

    scope: GraphScope
    duplicate_threshold: float

    @asynccontextmanager
    async def __call__(
        self, session: AsyncSession, arguments: Sequence[Arguments]
    ) -> AsyncIterator[None]:
        nodes = [each for each in arguments if isinstance(each, AddGraphNode)]
        new_edges = [each for each in arguments if isinstance(each, AddGraphEdge)]
        scope, trip, buffer = self.scope, RoundTrip(), ElementBuffer()
        trip.ask(locks.write_locks(scope.agent_id))
        evidence = [quote for node in nodes for quote in node.evidence]
        evidence += [quote for edge in new_edges for quote in edge.evidence]
        pages = trip.ask(sources.pages_query(scope, [quote.source_url for quote in evidence]))
        schemas = trip.ask(types.node_schemas_query(scope, {node.type for node in nodes}))
        rules = trip.ask(types.edge_rules_query(scope, {edge.type for edge in new_edges}))
        lookups: dict[Any, PendingResult[Any]] = {}
        for node in nodes:
            with suppress(ToolRefusalError):
                self._look_up_names(trip, lookups, node)
        for edge in new_edges:
            self._look_up_ends(trip, lookups, edge)
        await trip.make(session)
        sources.remember_pages(session, scope, pages.value)
        types.remember_types(session, scope, schemas.value, rules.value)
        buffer.lookups |= {key: result.value for key, result in lookups.items()}
        set_buffer(session, buffer)
        try:
            yield
            await buffer.write(session)
        finally:
            set_buffer(session, None)

    def _look_up_names(
        self, trip: RoundTrip, lookups: dict[Any, PendingResult[Any]], node: AddGraphNode
    ) -> None:
        request = NameRequest(
            node.type,
            normalize_name(node.name),
            node.aliases,
            node.distinct_from,
            self.duplicate_threshold,
        )
        lookups[aliases.lookup_key(request)] = trip.ask(aliases.names_query(self.scope, request))

    def _look_up_ends(
        self, trip: RoundTrip, lookups: dict[Any, PendingResult[Any]], edge: AddGraphEdge
    ) -> None:
        source_id, target_id = referenced_id(edge.source_id), referenced_id(edge.target_id)
        if source_id is not None and target_id is not None:
            key = (edge.type, source_id, target_id)
            lookups[key] = trip.ask(edges.ends_query(self.scope, *key))
