"""An agent's graph with its pages: written as rows, retracted, restored and inspected."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import func, select

from shared.database import ids
from shared.database.tables import Doubt, Evidence, GraphEdge, GraphNode, InboxItem, Source
from shared.database.transaction import Transaction
from shared.enums import Entailment, InboxKind
from shared.graph.projection import EDGES, NODES, reproject
from shared.graph.provenance import integrity, sources
from shared.graph.retraction import retractions
from shared.graph.retraction.propagation import (
    BATCH_SIZE,
    propagate_refusals,
    propagate_retractions,
    resolve_doubts,
)
from tests.support import canonical_graph
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.evidence_rows import make_evidence, make_source, store_verdict


@dataclass(frozen=True)
class State:
    """All that a retraction changes and a restoration restores, without times."""

    canonical: str
    seals: Mapping[UUID, bytes | None]
    unsupported: frozenset[UUID]
    doubted: frozenset[tuple[UUID, UUID, UUID]]
    """Conclusion, element and source of each open doubt."""


@dataclass(frozen=True)
class RetractionGraph:
    agent_graph: AgentGraph

    async def node(self, name: str, claims_by_url: Mapping[str, Mapping[str, Any]]) -> UUID:
        """Add a node with one evidence row per page URL, the newest last."""
        node_id = uuid4()
        async with self.agent_graph.database.transaction() as session:
            row = {"id": node_id, "agent_id": self.agent_graph.scope.agent_id, "type": "Country"}
            await session.insert(GraphNode, **row, name=name, properties={})
        for day, (url, claims) in enumerate(claims_by_url.items()):
            await self.says(url, claims, node_id=node_id, day=day)
        return node_id

    async def edge(self, source_id: UUID, target_id: UUID, *urls: str) -> UUID:
        edge_id = uuid4()
        async with self.agent_graph.database.transaction() as session:
            row = {"id": edge_id, "agent_id": self.agent_graph.scope.agent_id, "type": "borders"}
            await session.insert(
                GraphEdge, **row, source_id=source_id, target_id=target_id, properties={}
            )
        for day, url in enumerate(urls):
            await self.says(url, {}, edge_id=edge_id, day=day)
        return edge_id

    async def says(
        self,
        url: str,
        claims: Mapping[str, Any],
        *,
        node_id: UUID | None = None,
        edge_id: UUID | None = None,
        day: int = 0,
    ) -> None:
        """Write evidence and reproject its element in one transaction, as a Researcher does."""
        async with self.agent_graph.database.transaction() as session:
            await self.write(session, url, claims, node_id=node_id, edge_id=edge_id, day=day)

    async def write(
        self,
        session: Transaction,
        url: str,
        claims: Mapping[str, Any],
        *,
        node_id: UUID | None = None,
        edge_id: UUID | None = None,
        day: int = 0,
    ) -> None:
        scope = self.agent_graph.scope
        source_id = await make_source(session, scope, url)
        await make_evidence(
            session, scope, source_id, claims, node_id=node_id, edge_id=edge_id, day=day
        )
        if node_id is not None:
            await reproject(session, scope, NODES, node_id)
        if edge_id is not None:
            await reproject(session, scope, EDGES, edge_id)

    async def analysis(self, name: str, *citations: str) -> UUID:
        """`citations` are formatted as in a text."""
        content = f"It is so {' '.join(citations)}."
        return await self.agent_graph.analysis(content, name, summary="So it is.")

    async def advice(self, name: str, analysis_id: UUID) -> UUID:
        """Advice on a node of its own name, which cites the analysis and one that no retraction concerns."""
        elsewhere = await self.node(name, {})
        second = await self.analysis(f"Elsewhere than {name}", f"[node:{elsewhere}]")
        return await self.agent_graph.advice(f"For now [node:{analysis_id}] [node:{second}].", name)

    async def ask_retract(self, reference: str, reason: str = "made up") -> UUID:
        """Record the retraction without propagating it."""
        async with self.agent_graph.database.transaction() as session:
            return await retractions.retract_source(
                session, self.agent_graph.scope, reference, reason
            )

    async def ask_bar(self, domain: str, reason: str = "bought") -> UUID:
        """Bar the site without propagating it."""
        async with self.agent_graph.database.transaction() as session:
            return await retractions.bar_site(session, self.agent_graph.scope, domain, reason)

    async def read_again(self, url: str, text: str) -> UUID:
        """Store a page as a Researcher does that has just read it, and return the id of the source."""
        async with self.agent_graph.database.transaction() as session:
            pages = {"results": [{"url": url, "content": text}]}
            await sources.store_pages(session, self.agent_graph.scope, pages)
        return ids.source_id(self.agent_graph.scope.agent_id, url, integrity.sha256(text))

    async def ask_restore(self, retraction_id: UUID) -> None:
        async with self.agent_graph.database.transaction() as session:
            assert await retractions.restore_source(session, self.agent_graph.scope, retraction_id)

    async def retract(self, reference: str, reason: str = "made up") -> UUID:
        retraction_id = await self.ask_retract(reference, reason)
        await self.work_off()
        return retraction_id

    async def restore(self, retraction_id: UUID) -> None:
        await self.ask_restore(retraction_id)
        await self.work_off()

    async def source_id(self, url: str) -> UUID:
        async with self.agent_graph.database.transaction() as session:
            return (await session.scalars(select(Source.id).where(Source.url == url))).one()

    async def contradict(
        self, element_id: UUID, url: str, reason: str = "It says otherwise."
    ) -> None:
        """Store a contradiction, and propagate it."""
        await self.store_contradiction(element_id, url, reason)
        await self.propagate_refusals()

    async def store_contradiction(
        self, element_id: UUID, url: str, reason: str = "It says otherwise."
    ) -> None:
        """Store that a model found the page to contradict what it supports of the node or edge."""
        async with self.agent_graph.database.transaction() as session:
            evidence_ids = await session.scalars(
                select(Evidence.id)
                .join(Source, Source.id == Evidence.source_id)
                .where(
                    Source.url == url,
                    func.coalesce(Evidence.node_id, Evidence.edge_id) == element_id,
                )
            )
        for evidence_id in evidence_ids.all():
            await store_verdict(self.agent_graph, evidence_id, Entailment.CONTRADICTED, reason)

    async def propagate_refusals(self) -> None:
        await propagate_refusals(self.agent_graph.database)

    async def work_off(self, at_once: int = BATCH_SIZE) -> None:
        await propagate_retractions(self.agent_graph.database, at_once=at_once)

    async def resolve_doubts(self, at_once: int = BATCH_SIZE) -> None:
        await resolve_doubts(self.agent_graph.database, at_once=at_once)

    async def get_node(self, node_id: UUID) -> GraphNode:
        async with self.agent_graph.database.transaction() as session:
            return await session.get_one(GraphNode, node_id)

    async def notices(self) -> list[InboxItem]:
        async with self.agent_graph.database.transaction() as session:
            of_kind = InboxItem.kind == InboxKind.NOTICE
            return list(await session.scalars(select(InboxItem).where(of_kind)))

    async def doubted(self) -> set[UUID]:
        return {conclusion for conclusion, _, _ in (await self.state()).doubted}

    async def state(self) -> State:
        async with self.agent_graph.database.transaction() as session:
            elements: dict[UUID, tuple[bytes | None, bool]] = {}
            for table in (GraphNode, GraphEdge):
                is_unsupported = table.unsupported_since.is_not(None)
                rows = await session.execute(select(table.id, table.seal, is_unsupported))
                elements |= {row[0]: (row[1], row[2]) for row in rows}
            doubts = await session.execute(
                select(Doubt.conclusion_id, Doubt.element_id, Doubt.source_id).where(
                    Doubt.resolved_at.is_(None)
                )
            )
            return State(
                await canonical_graph.graph_fingerprint(session, self.agent_graph.scope),
                {element_id: seal for element_id, (seal, _) in elements.items()},
                frozenset(
                    element_id for element_id, (_, unsupported) in elements.items() if unsupported
                ),
                frozenset((row[0], row[1], row[2]) for row in doubts),
            )
