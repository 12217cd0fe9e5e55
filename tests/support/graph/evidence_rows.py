"""Pages and evidence of a graph, written directly as rows without a Researcher."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final
from uuid import UUID, uuid4

from sqlalchemy.dialects.postgresql import insert

from shared.database import ids
from shared.database.locks import shared_write_lock
from shared.database.tables import Evidence, GraphNode, Source
from shared.database.transaction import Transaction
from shared.enums import Entailment, SentenceKind, SentenceVerdict
from shared.graph.conclusions.readings import ConclusionReadings, draft_of
from shared.graph.provenance import integrity, readings
from shared.graph.scope import GraphScope
from shared.tools.readings import ClaimFinding, Findings, Material, SentenceFinding
from tests.support.graph.agent_graph import AgentGraph

EPOCH: Final = datetime(2024, 1, 1, tzinfo=UTC)


async def make_source(
    session: Transaction, scope: GraphScope, url: str, text: str = "A page.", *, day: int = 0
) -> UUID:
    """Add a source fetched `day` days after EPOCH. The same page is the same source."""
    sha256, fetched_at = integrity.sha256(text), EPOCH + timedelta(days=day)
    source_id = ids.source_id(scope.agent_id, url, sha256)
    seal = integrity.source_seal(
        source_id=source_id,
        agent_id=scope.agent_id,
        url=url,
        title=None,
        published=None,
        fetched_at=fetched_at,
        text_sha256=sha256,
    )
    await session.execute(
        insert(Source)
        .values(
            id=source_id,
            agent_id=scope.agent_id,
            url=url,
            fetched_at=fetched_at,
            sha256=sha256,
            text=text,
            seal=seal,
        )
        .on_conflict_do_nothing()
    )
    return source_id


async def make_evidence(
    session: Transaction,
    scope: GraphScope,
    source_id: UUID,
    claims: Mapping[str, Any],
    *,
    node_id: UUID | None = None,
    edge_id: UUID | None = None,
    day: int = 0,
    speaker: str | None = None,
) -> UUID:
    """Add evidence as of `day` days after EPOCH, without reprojecting the node or edge."""
    as_of = EPOCH + timedelta(days=day)
    element_id = node_id or edge_id
    assert element_id is not None
    content = integrity.evidence_content(claims, as_of, None, speaker)
    evidence_id = ids.evidence_id(element_id, source_id, 0, 1, content)
    columns: dict[str, Any] = {
        "agent_id": scope.agent_id,
        "source_id": source_id,
        "first_byte": 0,
        "end_byte": 1,
        "quote_sha256": integrity.sha256("A"),
        "claims": dict(claims),
        "valid_from": as_of,
        "valid_to": None,
        "as_of": as_of,
        "learned_at": as_of,
        "speaker": speaker,
    }
    seal = integrity.evidence_seal(evidence_id=evidence_id, element_id=element_id, **columns)
    await session.execute(
        insert(Evidence)
        .values(id=evidence_id, node_id=node_id, edge_id=edge_id, seal=seal, **columns)
        .on_conflict_do_nothing()
    )
    return evidence_id


async def store_verdict(
    agent_graph: AgentGraph,
    evidence_id: UUID,
    verdict: Entailment,
    reason: str,
    *names: str,
) -> None:
    """Store what a model found in values of the evidence, as a worker does; without names, in all of them, as the release
    before did. Nothing where there is a verdict.
    """
    scope = replace(agent_graph.scope, step_id=uuid4())
    found = Findings(
        Material(),
        "a-model",
        uuid4(),
        1,
        claims={(evidence_id, name): ClaimFinding(verdict, reason) for name in names or (None,)},
    )
    storing = readings.store_verdicts(scope, found)
    async with agent_graph.database.transaction() as session:
        await shared_write_lock(session, scope.agent_id)
        await storing.execute(session)


async def store_readings(
    session: Transaction, scope: GraphScope, node: GraphNode, chance: Random | None = None
) -> None:
    """Store verdicts on each sentence of a conclusion, as a worker does; by `chance` some are plausible."""
    keys = ("summary", "content", "invalidation", "change", "action")
    texts = {key: str(node.properties.get(key, "")) for key in keys}
    draft = draft_of(scope, node.type, node.name, **texts)
    conclusions = ConclusionReadings(scope)
    conclusions.collect()
    conclusions.add(draft)
    material = await conclusions.load_material(session)
    assert material is not None
    passing = SentenceFinding(SentenceKind.STATES, SentenceVerdict.SUPPORTED)
    plausible = SentenceFinding(SentenceKind.INFERS, SentenceVerdict.PLAUSIBLE, "It may be.")
    sentences = {
        place: plausible if chance is not None and chance.random() < 0.2 else passing
        for place in range(len(material.sentences))
    }
    conclusions.use(Findings(material, "a-model", uuid4(), 1, sentences=sentences))
    conclusions.add(draft)
    for query in conclusions.storing():
        await query.execute(session)
