"""Pages and their evidence for nodes and edges, written as the graph stores them."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy.dialects.postgresql import insert

from shared.database import ids
from shared.database.tables import Evidence, Source
from shared.graph.projection import EDGES, NODES, reproject
from shared.graph.provenance import integrity
from shared.graph.provenance.page_reading import find_quote
from tests.support.graph.agent_graph import AgentGraph

LEARNED = datetime(2026, 1, 1, tzinfo=UTC)


async def said(
    agent_graph: AgentGraph,
    url: str,
    quote: str,
    *,
    node: UUID | None = None,
    edge: UUID | None = None,
    at: datetime = LEARNED,
    speaker: str | None = None,
    **claims: Any,
) -> UUID:
    """Store a page whose whole text is `quote`, and return the id of its evidence for the node or edge."""
    agent_id, text_sha = agent_graph.scope.agent_id, integrity.sha256(quote)
    element_id = node or edge
    assert element_id is not None
    source_id = ids.source_id(agent_id, url, text_sha)
    page: dict[str, Any] = {"url": url, "title": None, "published": None, "fetched_at": LEARNED}
    span = find_quote(quote, quote)
    assert span is not None
    content: dict[str, Any] = {"claims": claims, "valid_from": None, "valid_to": None}
    evidence_id = ids.evidence_id(
        element_id,
        source_id,
        span.start_byte,
        span.end_byte,
        integrity.evidence_content(claims, None, None, speaker),
    )
    columns: dict[str, Any] = {
        "agent_id": agent_id,
        "source_id": source_id,
        "first_byte": span.start_byte,
        "end_byte": span.end_byte,
        "quote_sha256": integrity.sha256(span.extract(quote)),
        **content,
        "as_of": at,
        "learned_at": at,
        "speaker": speaker,
    }
    seal = integrity.source_seal(
        source_id=source_id, agent_id=agent_id, text_sha256=text_sha, **page
    )
    async with agent_graph.database.transaction() as session:
        await session.execute(
            insert(Source)
            .values(id=source_id, agent_id=agent_id, sha256=text_sha, text=quote, seal=seal, **page)
            .on_conflict_do_nothing()
        )
        evidence_seal = integrity.evidence_seal(
            evidence_id=evidence_id, element_id=element_id, **columns
        )
        await session.execute(
            insert(Evidence)
            .values(id=evidence_id, node_id=node, edge_id=edge, seal=evidence_seal, **columns)
            .on_conflict_do_nothing()
        )
        if node is not None:
            await reproject(session, agent_graph.scope, NODES, node)
        if edge is not None:
            await reproject(session, agent_graph.scope, EDGES, edge)
    return evidence_id
