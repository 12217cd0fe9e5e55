"""One conclusion followed down to the pages that it rests on: level by level, each link once."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph import doubts
from shared.graph.citations import Kind
from shared.graph.proof.rows import EdgeRow, NodeRow
from shared.graph.scope import Scope
from shared.graph.verify import checks, load
from shared.graph.verify.checks import Spanned
from shared.graph.verify.faults import Fault
from shared.graph.verify.load import SourceFound
from shared.store.reading.retraction_shapes import DoubtView

AT_ONCE: Final = 1000
"""Ids that one statement asks for."""


@dataclass
class Walked:
    """All that was met, by id, in the order in which it was met; and what is wrong with it."""

    nodes: dict[UUID, NodeRow] = field(default_factory=dict)
    edges: dict[UUID, EdgeRow] = field(default_factory=dict)
    cited: dict[UUID, list[UUID]] = field(default_factory=dict)
    """By conclusion: what it cites and is there."""
    evidence: dict[UUID, list[Spanned]] = field(default_factory=dict)
    """By node or edge."""
    sources: dict[UUID, SourceFound] = field(default_factory=dict)
    faults: dict[UUID, list[Fault]] = field(default_factory=dict)
    doubts: Mapping[UUID, list[DoubtView]] = field(default_factory=dict)
    """By conclusion."""

    def rests_on(self) -> dict[UUID, list[UUID]]:
        found = {each: list(cited) for each, cited in self.cited.items()}
        for thing, evidence in self.evidence.items():
            found[thing] = [each.row.id for each in evidence]
            found |= {each.row.id: [each.row.source_id] for each in evidence}
        for edge in self.edges.values():
            found[edge.id] = [*found.get(edge.id, ()), edge.source_id, edge.target_id]
        return found


async def walk(session: AsyncSession, scope: Scope, root: UUID) -> Walked:
    """From the conclusion `root`; nothing is found where the agent has none of that id.

    Costs some statements for each level between it and its pages, whatever the size of the graph. Give it a transaction
    of repeatable reads: what is written meanwhile would look broken.
    """
    walked = Walked()
    await _follow(session, scope, walked, root)
    for kind, things in ((Kind.NODE, walked.nodes), (Kind.EDGE, walked.edges)):
        for ids in _batches(things):
            walked.evidence |= await load.evidence_of(session, scope, kind, ids)
    quoted = {each.row.source_id for found in walked.evidence.values() for each in found}
    for ids in _batches(quoted):
        found = await load.sources_by_id(session, scope, ids)
        walked.sources |= {each.row.id: each for each in found}
    await _check(session, scope, walked)
    walked.doubts = await doubts.of_each(
        session, [row.id for row in walked.nodes.values() if checks.is_conclusion(row)]
    )
    return walked


async def _follow(session: AsyncSession, scope: Scope, walked: Walked, root: UUID) -> None:
    """Finds the nodes and edges."""
    nodes, edges = {root}, set[UUID]()
    while nodes or edges:
        new_nodes, new_edges = dict[UUID, NodeRow](), dict[UUID, EdgeRow]()
        for ids in _batches(nodes):
            new_nodes |= await load.nodes(session, scope, ids)
        for ids in _batches(edges):
            new_edges |= await load.edges(session, scope, ids)
        walked.nodes |= new_nodes
        walked.edges |= new_edges
        nodes = {end for edge in new_edges.values() for end in (edge.source_id, edge.target_id)}
        edges = set[UUID]()
        conclusions = [row for row in new_nodes.values() if checks.is_conclusion(row)]
        cited = {row.id: checks.cited_by(row) for row in conclusions}
        of_all = {each for texts in cited.values() for each in texts.ids()}
        current = await load.current_ids(session, scope, of_all)
        for conclusion, texts in cited.items():
            walked.cited[conclusion] = list(dict.fromkeys(current[each] for each in texts.ids()))
            nodes |= {current[each] for each in texts.ids(Kind.NODE)}
            edges |= {current[each] for each in texts.ids(Kind.EDGE)}
        nodes -= walked.nodes.keys()
        edges -= walked.edges.keys()


async def _check(session: AsyncSession, scope: Scope, walked: Walked) -> None:
    conclusions = [row for row in walked.nodes.values() if checks.is_conclusion(row)]
    support = await load.support_of(session, scope, conclusions)
    types = {row.id: row.type for row in walked.nodes.values()}
    agent_id = scope.agent_id

    def found() -> Iterator[tuple[UUID, Iterator[Fault]]]:
        for node in walked.nodes.values():
            yield node.id, checks.of_node(agent_id, node, _of(walked, node.id))
        for conclusion in conclusions:
            yield conclusion.id, checks.of_conclusion(conclusion, support)
        for edge in walked.edges.values():
            ends = {end: types[end] for end in (edge.source_id, edge.target_id) if end in types}
            yield edge.id, checks.of_edge(agent_id, edge, _of(walked, edge.id), ends)
        for evidence in walked.evidence.values():
            for each in evidence:
                yield each.row.id, checks.of_evidence(agent_id, each)
        for source in walked.sources.values():
            yield source.row.id, checks.of_source(agent_id, source.row, source.text_sha256)

    for link, faults in found():
        for fault in faults:
            walked.faults.setdefault(link, []).append(fault)


def _of(walked: Walked, thing: UUID) -> Sequence[Spanned]:
    return walked.evidence.get(thing, ())


def _batches(ids: Iterable[UUID]) -> Iterator[list[UUID]]:
    known = list(ids)
    for at in range(0, len(known), AT_ONCE):
        yield known[at : at + AT_ONCE]
