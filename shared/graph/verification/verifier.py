"""Verification of a whole graph, page by page, and of one conclusion down to its sources.

Each page is read in one transaction and costs the same wherever it lies, so that whoever asks for one after the other
needs no more memory for a million nodes than for ten.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database import pagination
from shared.database.pagination import BadCursorError, Keyset, long_slice_of
from shared.database.tables import Agent, GraphNode
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph.conclusions.citations import Kind
from shared.graph.provenance.claims import standing
from shared.graph.provenance.integrity import EdgeRow, NodeRow, ThingRow
from shared.graph.retraction import doubts
from shared.graph.scope import Scope
from shared.graph.verification import checks, loader
from shared.graph.verification.checks import (
    Fault,
    FoundFault,
    Link,
    Spanned,
    is_conclusion,
    link_of,
    not_holding,
)
from shared.graph.verification.loader import SourceFound
from shared.schemas.provenance import (
    BreakView,
    CheckedView,
    ConclusionLink,
    DoubtView,
    EvidenceLink,
    FoundBreak,
    FoundDoubt,
    SourceLink,
    ThingLink,
    VerificationPage,
    VerificationView,
)

PAGE_ROWS: Final = 500
LARGEST_PAGE_ROWS: Final = 1000

_CURSOR: Final = "verification"
_STAGES: Final = (loader.SOURCES_IN_ORDER, loader.NODES_IN_ORDER, loader.EDGES_IN_ORDER)


async def sweep(
    session: AsyncSession, scope: Scope, *, cursor: str | None = None, rows: int = PAGE_ROWS
) -> VerificationPage:
    """The first page, or that after `cursor`, of so many rows at most, with all evidence of them.

    Give it a transaction of repeatable reads: what is written meanwhile would look broken. Raises BadCursorError.
    """
    stage, after = _place(cursor)
    look = (_sources, _nodes, _edges)[stage]
    looked = await look(session, scope, _STAGES[stage], after, rows)
    return VerificationPage(
        checked=looked.checked,
        breaks=[_told(each) for each in looked.broken],
        doubts=list(looked.doubts),
        next=_next(stage, looked.last),
    )


@dataclass(frozen=True)
class _Looked:
    checked: CheckedView
    broken: Sequence[FoundFault]
    last: str | None
    """Where the stage goes on."""
    doubts: Sequence[FoundDoubt] = ()


async def _sources(
    session: AsyncSession, scope: Scope, order: Keyset, after: str | None, limit: int
) -> _Looked:
    part = await long_slice_of(session, loader.all_sources(scope), order, limit, after)
    found = [loader.source_found(*row) for row in part.rows]
    broken = [
        FoundFault(Link.SOURCE, each.row.id, each.row.url, fault)
        for each in found
        for fault in checks.of_source(scope.agent_id, each.row, each.text_sha256)
    ]
    return _Looked(CheckedView(sources=len(found)), broken, part.next)


async def _nodes(
    session: AsyncSession, scope: Scope, order: Keyset, after: str | None, limit: int
) -> _Looked:
    part = await long_slice_of(session, loader.all_nodes(scope), order, limit, after)
    nodes = [loader.node_row(*row) for row in part.rows]
    evidence = await loader.evidence_of(session, scope, Kind.NODE, [node.id for node in nodes])
    conclusions = [node for node in nodes if checks.is_conclusion(node)]
    support = await loader.support_of(session, scope, conclusions)
    broken = list(_of_evidence(scope.agent_id, {node.id: node.name for node in nodes}, evidence))
    for node in nodes:
        faults = checks.of_node(scope.agent_id, node, evidence.get(node.id, ()))
        broken += _in_node(node, faults)
    for conclusion in conclusions:
        broken += _in_node(conclusion, checks.of_conclusion(conclusion, support))
    checked = CheckedView(nodes=len(nodes), evidence=_count(evidence))
    return _Looked(checked, broken, part.next, await _doubts(session, conclusions))


async def _edges(
    session: AsyncSession, scope: Scope, order: Keyset, after: str | None, limit: int
) -> _Looked:
    part = await long_slice_of(session, loader.all_edges(scope), order, limit, after)
    edges = [loader.edge_row(*row) for row in part.rows]
    evidence = await loader.evidence_of(session, scope, Kind.EDGE, [edge.id for edge in edges])
    ends = {end for edge in edges for end in (edge.source_id, edge.target_id)}
    types = await loader.node_types(session, scope, ends)
    broken = list(_of_evidence(scope.agent_id, {edge.id: edge.type for edge in edges}, evidence))
    for edge in edges:
        there = {end: types[end] for end in (edge.source_id, edge.target_id) if end in types}
        faults = checks.of_edge(scope.agent_id, edge, evidence.get(edge.id, ()), there)
        broken += [FoundFault(Link.EDGE, edge.id, edge.type, fault) for fault in faults]
    return _Looked(CheckedView(edges=len(edges), evidence=_count(evidence)), broken, part.next)


async def _doubts(session: AsyncSession, conclusions: Sequence[NodeRow]) -> list[FoundDoubt]:
    found = await doubts.of_each(session, [each.id for each in conclusions])
    return [
        FoundDoubt(**doubt.model_dump(), link=link_of(each.type), id=each.id, name=each.name)
        for each in conclusions
        for doubt in found.get(each.id, ())
    ]


def _of_evidence(
    agent_id: UUID, names: Mapping[UUID, str], evidence: Mapping[UUID, Sequence[Spanned]]
) -> Iterator[FoundFault]:
    for thing, known in evidence.items():
        for each in known:
            for fault in checks.of_evidence(agent_id, each):
                yield FoundFault(Link.EVIDENCE, each.row.id, f"of {names[thing]}", fault)


def _in_node(node: NodeRow, faults: Iterable[Fault]) -> list[FoundFault]:
    return [FoundFault(link_of(node.type), node.id, node.name, fault) for fault in faults]


def _count(evidence: Mapping[UUID, Sequence[Spanned]]) -> int:
    return sum(map(len, evidence.values()))


def _place(cursor: str | None) -> tuple[int, str | None]:
    """The stage, and where in it. Raises BadCursorError."""
    if cursor is None:
        return 0, None
    stage, after = pagination.read(_CURSOR, (int, str), cursor)
    if not isinstance(stage, int) or not 0 <= stage < len(_STAGES):
        raise BadCursorError(f"{cursor[:40]!r} is no cursor of this list: leave it out to begin")
    return stage, str(after) or None


def _next(stage: int, last: str | None) -> str | None:
    if last is not None:
        return pagination.written(_CURSOR, (stage, last))
    return None if stage + 1 == len(_STAGES) else pagination.written(_CURSOR, (stage + 1, ""))


def _told(found: FoundFault) -> FoundBreak:
    return FoundBreak(
        broken=found.fault.broken,
        told=found.fault.told,
        link=found.link,
        id=found.id,
        name=found.name,
    )


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
            walked.evidence |= await loader.evidence_of(session, scope, kind, ids)
    quoted = {each.row.source_id for found in walked.evidence.values() for each in found}
    for ids in _batches(quoted):
        found = await loader.sources_by_id(session, scope, ids)
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
            new_nodes |= await loader.nodes(session, scope, ids)
        for ids in _batches(edges):
            new_edges |= await loader.edges(session, scope, ids)
        walked.nodes |= new_nodes
        walked.edges |= new_edges
        nodes = {end for edge in new_edges.values() for end in (edge.source_id, edge.target_id)}
        edges = set[UUID]()
        conclusions = [row for row in new_nodes.values() if checks.is_conclusion(row)]
        cited = {row.id: checks.cited_by(row) for row in conclusions}
        of_all = {each for texts in cited.values() for each in texts.ids()}
        current = await loader.current_ids(session, scope, of_all)
        for conclusion, texts in cited.items():
            walked.cited[conclusion] = list(dict.fromkeys(current[each] for each in texts.ids()))
            nodes |= {current[each] for each in texts.ids(Kind.NODE)}
            edges |= {current[each] for each in texts.ids(Kind.EDGE)}
        nodes -= walked.nodes.keys()
        edges -= walked.edges.keys()


async def _check(session: AsyncSession, scope: Scope, walked: Walked) -> None:
    conclusions = [row for row in walked.nodes.values() if checks.is_conclusion(row)]
    support = await loader.support_of(session, scope, conclusions)
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


async def verification(
    session: AsyncSession, owner_id: UUID, conclusion_id: UUID
) -> VerificationView | None:
    """Of any of the owner's conclusions; None where there is none of that id.

    Give it a transaction of repeatable reads.
    """
    agent_id = await session.scalar(
        select(GraphNode.agent_id)
        .join(Agent, Agent.id == GraphNode.agent_id)
        .where(
            GraphNode.id == conclusion_id,
            GraphNode.type.in_((ANALYSIS_TYPE, ADVICE_TYPE)),
            Agent.owner_id == owner_id,
        )
    )
    if agent_id is None:
        return None
    walked = await walk(session, Scope(owner_id, agent_id), conclusion_id)
    return _Telling(walked).of(agent_id, conclusion_id)


class _Telling:
    def __init__(self, walked: Walked) -> None:
        self._walked = walked
        self._rests_on = walked.rests_on()
        self._broken = not_holding(self._rests_on, walked.faults)

    def of(self, agent_id: UUID, root: UUID) -> VerificationView:
        nodes = self._walked.nodes.values()
        things: list[ThingRow] = [row for row in nodes if not is_conclusion(row)]
        things += self._walked.edges.values()
        return VerificationView(
            id=root,
            agent_id=agent_id,
            holds=root not in self._broken,
            conclusions=[self._conclusion(row) for row in nodes if is_conclusion(row)],
            things=[self._thing(row) for row in things],
            evidence=[
                link for each in self._walked.evidence.values() for link in self._evidence(each)
            ],
            sources=[self._source(each) for each in self._walked.sources.values()],
        )

    def _conclusion(self, row: NodeRow) -> ConclusionLink:
        return ConclusionLink(
            id=row.id,
            holds=self._holds(row.id),
            breaks=self._breaks(row.id),
            link=link_of(row.type),
            name=row.name,
            summary=str(row.properties.get("summary", "")),
            rests_on=self._rests_on.get(row.id, []),
            doubts=self._walked.doubts.get(row.id, []),
        )

    def _thing(self, row: ThingRow) -> ThingLink:
        return ThingLink(
            id=row.id,
            holds=self._holds(row.id),
            breaks=self._breaks(row.id),
            link=Link.EDGE if isinstance(row, EdgeRow) else Link.NODE,
            type=row.type,
            name=self._name(row),
            properties=row.properties,
            rests_on=self._rests_on.get(row.id, []),
        )

    def _name(self, row: ThingRow) -> str:
        if isinstance(row, NodeRow):
            return row.name
        ends = (self._walked.nodes.get(end) for end in (row.source_id, row.target_id))
        return " → ".join(end.name if end else "?" for end in ends)

    def _evidence(self, of_thing: Iterable[Spanned]) -> list[EvidenceLink]:
        known = list(of_thing)
        held = standing(each.claim for each in known)
        by_id: dict[UUID, list[str]] = {}
        for name, claim in held.items():
            by_id.setdefault(claim.evidence_id, []).append(name)
        return [self._evidence_link(each, by_id.get(each.row.id, [])) for each in known]

    def _evidence_link(self, spanned: Spanned, stands: list[str]) -> EvidenceLink:
        row = spanned.row
        return EvidenceLink(
            id=row.id,
            holds=self._holds(row.id),
            breaks=self._breaks(row.id),
            thing_id=row.thing_id,
            source_id=row.source_id,
            quote=spanned.quote.decode(errors="replace"),
            first_byte=row.first_byte,
            end_byte=row.end_byte,
            claims=row.claims,
            stands=stands,
            valid_from=row.valid_from,
            valid_to=row.valid_to,
            as_of=row.as_of,
            learned_at=row.learned_at,
        )

    def _source(self, found: SourceFound) -> SourceLink:
        row = found.row
        return SourceLink(
            id=row.id,
            holds=self._holds(row.id),
            breaks=self._breaks(row.id),
            url=row.url,
            title=row.title,
            published=row.published,
            fetched_at=row.fetched_at,
            retracted_at=row.retracted_at,
        )

    def _holds(self, link: UUID) -> bool:
        return link not in self._broken

    def _breaks(self, link: UUID) -> list[BreakView]:
        faults = self._walked.faults.get(link, ())
        return [BreakView(broken=fault.broken, told=fault.told) for fault in faults]
