"""A graph with its pages, written as the tools write it: quotes located, elements projected and sealed."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import select

from shared.database import ids
from shared.database.tables import Evidence, GraphEdge, GraphNode, Source
from shared.database.transaction import Transaction
from shared.graph import projection
from shared.graph.conclusions import conclusions
from shared.graph.conclusions.citations import Kind
from shared.graph.projection import EDGES, NODES
from shared.graph.provenance import integrity, page_reading
from shared.graph.provenance.integrity import EvidenceRow, SourceRow
from shared.graph.scope import GraphScope
from tests.support.forecast_terms import ADVICE_TERMS, ANALYSIS_TERMS
from tests.support.graph.agent_graph import AgentGraph
from tests.support.table_rows import add, change

FETCHED: Final = datetime(2026, 3, 1, 8, tzinfo=UTC)
GHANA: Final = (
    "Ghana — “the Gold Coast” once — has 33 million people.\nIts capital is Accra.\n"
    "It borders Togo along 1,098 km.\n"
)
TOGO: Final = "Togo has 9 million people. Its capital is Lomé.\n"
LATER: Final = "Ghana now counts 35 million people, says the census of 2026.\n"


@dataclass
class EvidenceGraph:
    """Nodes, edges and conclusions by name; sources by URL."""

    agent_graph: AgentGraph
    nodes: dict[str, UUID] = field(default_factory=dict)
    edges: dict[str, UUID] = field(default_factory=dict)
    sources: dict[str, UUID] = field(default_factory=dict)

    @property
    def scope(self) -> GraphScope:
        return self.agent_graph.scope

    async def page(self, url: str, text: str, **columns: Any) -> None:
        row = build_source(self.scope.agent_id, url, text, **columns)
        async with self.agent_graph.database.transaction() as session:
            await add(session, row)
        self.sources[url] = row.id

    async def country(self, name: str) -> None:
        """Add a country without properties."""
        node_id = ids.node_id(self.scope.agent_id, "Country", name)
        columns = {"agent_id": self.scope.agent_id, "type": "Country", "name": name}
        async with self.agent_graph.database.transaction() as session:
            await session.insert(GraphNode, id=node_id, properties={}, **columns)
            await projection.reproject(session, self.scope, NODES, node_id)
        self.nodes[name] = node_id

    async def border(self, name: str, source: str, target: str) -> None:
        ends = {"source_id": self.nodes[source], "target_id": self.nodes[target]}
        edge_id = ids.edge_id(self.scope.agent_id, "borders", *ends.values())
        columns = {"agent_id": self.scope.agent_id, "type": "borders", "properties": {}}
        async with self.agent_graph.database.transaction() as session:
            await session.insert(GraphEdge, id=edge_id, **columns, **ends)
            await projection.reproject(session, self.scope, EDGES, edge_id)
        self.edges[name] = edge_id

    async def says(
        self, url: str, quote: str, name: str, claims: dict[str, Any], **columns: Any
    ) -> UUID:
        """Add evidence from the page for the node or edge of that name."""
        kind, element_id = (
            (Kind.NODE, self.nodes[name]) if name in self.nodes else (Kind.EDGE, self.edges[name])
        )
        async with self.agent_graph.database.transaction() as session:
            source = await session.get_one(Source, self.sources[url])
            row = build_evidence(source, quote, kind, element_id, claims, **columns)
            await add(session, row)
            await self._reproject(session, kind, element_id)
        return row.id

    async def retract(self, url: str, *, undo: bool = False) -> None:
        """Retract or restore a page, and reproject the elements it supports."""
        async with self.agent_graph.database.transaction() as session:
            source = await session.get_one(Source, self.sources[url])
            source = await change(session, source, retracted_at=None if undo else FETCHED)
            rows = await session.execute(
                select(Evidence.node_id, Evidence.edge_id).where(Evidence.source_id == source.id)
            )
            for node_id, edge_id in sorted(set(rows.all()), key=str):
                if node_id is not None:
                    await self._reproject(session, Kind.NODE, node_id)
                if edge_id is not None:
                    await self._reproject(session, Kind.EDGE, edge_id)

    async def analysis(self, name: str, content: str) -> None:
        """`content` may refer to ids by name: `[node:{Ghana}]`."""
        await self._conclude(
            name, content, conclusions.add_analysis, kind="observation", **ANALYSIS_TERMS
        )

    async def advice(self, name: str, content: str, **fields: Any) -> None:
        await self._conclude(
            name, content, conclusions.add_advice, action="HOLD", **ADVICE_TERMS, **fields
        )

    async def about(self, analysis: str, node: str) -> None:
        """Add an analyzer's edge, which has no evidence."""
        ends = {"source_id": self.nodes[analysis], "target_id": self.nodes[node]}
        edge_id = ids.edge_id(self.scope.agent_id, "about", *ends.values())
        async with self.agent_graph.database.transaction() as session:
            row = GraphEdge(
                id=edge_id, agent_id=self.scope.agent_id, type="about", properties={}, **ends
            )
            await add(session, row)
            await projection.reproject(session, self.scope, EDGES, edge_id)
        self.edges[f"{analysis} about {node}"] = edge_id

    async def _conclude(self, name: str, content: str, add: Any, **fields: Any) -> None:
        ids_by_name = {key: str(value) for key, value in (self.nodes | self.edges).items()}
        async with self.agent_graph.database.transaction() as session:
            node_id = await add(
                session,
                self.scope,
                name=name,
                summary=f"{name}.",
                content=content.format_map(ids_by_name),
                **fields,
            )
        self.nodes[name] = node_id

    async def _reproject(self, session: Transaction, kind: Kind, element_id: UUID) -> None:
        element_kind = NODES if kind is Kind.NODE else EDGES
        await projection.reproject(session, self.scope, element_kind, element_id)


def build_source(agent_id: UUID, url: str, text: str, **columns: Any) -> Source:
    sha256 = integrity.sha256(text)
    row = SourceRow(
        id=ids.source_id(agent_id, url, sha256),
        url=url,
        sha256=sha256,
        seal=b"",
        **{
            "title": f"About {url}",
            "published": None,
            "fetched_at": FETCHED,
            "retracted_at": None,
            "retraction_reason": None,
            **columns,
        },
    )
    values = row.model_dump() | {"seal": row.sealed(agent_id)}
    return Source(agent_id=agent_id, text=text, **values)


def build_evidence(
    source: Source, quote: str, kind: Kind, element_id: UUID, claims: dict[str, Any], **columns: Any
) -> Evidence:
    span = page_reading.find_quote(source.text, quote)
    assert span is not None, f"{quote!r} is not in {source.text!r}"
    valid_from, valid_to = columns.get("valid_from"), columns.get("valid_to")
    speaker = columns.get("speaker")
    content = integrity.evidence_content(claims, valid_from, valid_to, speaker)
    row = EvidenceRow(
        id=ids.evidence_id(element_id, source.id, span.start_byte, span.end_byte, content),
        element_id=element_id,
        source_id=source.id,
        first_byte=span.start_byte,
        end_byte=span.end_byte,
        quote_sha256=integrity.sha256(span.extract(source.text)),
        claims=claims,
        valid_from=valid_from,
        valid_to=valid_to,
        as_of=valid_from or source.published or source.fetched_at,
        learned_at=columns.get("learned_at", FETCHED),
        speaker=speaker,
        seal=b"",
    )
    values = row.model_dump(exclude={"element_id"}) | {"seal": row.sealed(source.agent_id)}
    return Evidence(agent_id=source.agent_id, **{f"{kind}_id": element_id}, **values)


async def prove(agent_graph: AgentGraph) -> EvidenceGraph:
    """Two countries and their border from three pages, with a superseded figure, and conclusions from them."""
    evidence_graph = EvidenceGraph(agent_graph)
    await evidence_graph.page("https://a.example/ghana", GHANA)
    await evidence_graph.page("https://a.example/togo", TOGO, title=None)
    await evidence_graph.page(
        "https://b.example/census", LATER, published=FETCHED + timedelta(days=1)
    )
    await evidence_graph.page("https://c.example/unused", "Nobody quotes this.")
    for name in ("Ghana", "Togo"):
        await evidence_graph.country(name)
    await evidence_graph.border("border", "Ghana", "Togo")
    await _add_evidence(evidence_graph)
    await _add_conclusions(evidence_graph)
    return evidence_graph


async def _add_evidence(evidence_graph: EvidenceGraph) -> None:
    ghana, togo, census = list(evidence_graph.sources)[:3]
    people = {"population": 33_000_000, "summary": "A state."}
    await evidence_graph.says(
        ghana, 'Ghana - "the Gold Coast" once - has 33 million', "Ghana", people
    )
    await evidence_graph.says(ghana, "Its capital is Accra.", "Ghana", {"capital": "Accra"})
    await evidence_graph.says(
        census,
        "Ghana now counts 35 million people",
        "Ghana",
        {"population": 35_000_000},
        valid_from=FETCHED + timedelta(days=2),
        valid_to=FETCHED + timedelta(days=400),
    )
    await evidence_graph.says(togo, "Togo has 9 million people", "Togo", {"population": 9e6})
    await evidence_graph.says(
        togo, "Its capital is Lomé.", "Togo", {"capital": "Lomé", "summary": "So."}
    )
    await evidence_graph.says(
        ghana, "It borders Togo along 1,098 km.", "border", {"lengths": [1098, 0.5]}
    )
    await evidence_graph.says(ghana, "It borders Togo", "Togo", {})


async def _add_conclusions(evidence_graph: EvidenceGraph) -> None:
    await evidence_graph.analysis(
        "Growth", "Ghana [node:{Ghana}] grows beside Togo [edge:{border}]."
    )
    await evidence_graph.about("Growth", "Ghana")
    await evidence_graph.analysis(
        "Borders",
        "They touch [edge:{border}], as [node:{Growth}] is about [edge:{Growth about Ghana}].",
    )
    await evidence_graph.advice("Wait", "Nothing moves [node:{Growth}] [node:{Borders}].")
