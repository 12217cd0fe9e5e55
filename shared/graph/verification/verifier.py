"""Verification of a whole graph page by page, and of one conclusion down to its sources.

Each page is one transaction with the same cost wherever it starts, so a client needs constant memory for a graph of
any size.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database import pagination
from shared.database.pagination import InvalidCursorError, Keyset, fetch_slice
from shared.database.tables import Agent, GraphNode
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph.conclusions.citations import Kind
from shared.graph.provenance.claims import current_claims
from shared.graph.provenance.integrity import EdgeRow, NodeRow, ThingRow
from shared.graph.retraction import doubts
from shared.graph.scope import GraphScope
from shared.graph.verification import checks, loader
from shared.graph.verification.checks import (
    Fault,
    FoundFault,
    Link,
    QuotedEvidence,
    find_unproven,
    is_conclusion,
    link_of,
)
from shared.graph.verification.loader import LoadedSource
from shared.schemas.provenance import (
    CheckedCounts,
    ConclusionLink,
    DoubtResponse,
    ElementDoubt,
    ElementFault,
    ElementLink,
    EvidenceLink,
    LinkFault,
    SourceLink,
    VerificationPage,
    VerificationResponse,
)

PAGE_ROWS: Final = 500
MAX_PAGE_ROWS: Final = 1000

_CURSOR: Final = "verification"
_STAGES: Final = (loader.SOURCES_IN_ORDER, loader.NODES_IN_ORDER, loader.EDGES_IN_ORDER)


async def check_page(
    session: AsyncSession, scope: GraphScope, *, cursor: str | None = None, rows: int = PAGE_ROWS
) -> VerificationPage:
    """Check one page of at most `rows` rows with all their evidence; the first page, or the one after `cursor`.

    Run it in a repeatable read transaction: otherwise concurrent writes look like faults. Raises InvalidCursorError.
    """
    stage, after = _parse_cursor(cursor)
    check_stage = (_check_sources, _check_nodes, _check_edges)[stage]
    page = await check_stage(session, scope, _STAGES[stage], after, rows)
    return VerificationPage(
        checked=page.checked,
        breaks=[_break_view(fault) for fault in page.faults],
        doubts=list(page.doubts),
        next=_next_cursor(stage, page.next_key),
    )


@dataclass(frozen=True)
class _CheckedPage:
    checked: CheckedCounts
    faults: Sequence[FoundFault]
    next_key: str | None
    """Where the stage continues."""
    doubts: Sequence[ElementDoubt] = ()


async def _check_sources(
    session: AsyncSession, scope: GraphScope, order: Keyset, after: str | None, limit: int
) -> _CheckedPage:
    page_slice = await fetch_slice(session, loader.select_sources(scope), order, limit, after)
    sources = [loader.loaded_source(*row) for row in page_slice.rows]
    faults = [
        FoundFault(Link.SOURCE, source.row.id, source.row.url, fault)
        for source in sources
        for fault in checks.check_source(scope.agent_id, source.row, source.text_sha256)
    ]
    return _CheckedPage(CheckedCounts(sources=len(sources)), faults, page_slice.next)


async def _check_nodes(
    session: AsyncSession, scope: GraphScope, order: Keyset, after: str | None, limit: int
) -> _CheckedPage:
    page_slice = await fetch_slice(session, loader.select_nodes(scope), order, limit, after)
    nodes = [loader.node_row(*row) for row in page_slice.rows]
    evidence = await loader.load_evidence(session, scope, Kind.NODE, [node.id for node in nodes])
    conclusions = [node for node in nodes if checks.is_conclusion(node)]
    support = await loader.load_support(session, scope, conclusions)
    all_faults = list(
        _check_evidence(scope.agent_id, {node.id: node.name for node in nodes}, evidence)
    )
    for node in nodes:
        node_faults = checks.check_node(scope.agent_id, node, evidence.get(node.id, ()))
        all_faults += _node_faults(node, node_faults)
    for conclusion in conclusions:
        all_faults += _node_faults(conclusion, checks.check_conclusion(conclusion, support))
    checked = CheckedCounts(nodes=len(nodes), evidence=_count(evidence))
    return _CheckedPage(
        checked, all_faults, page_slice.next, await _find_doubts(session, conclusions)
    )


async def _check_edges(
    session: AsyncSession, scope: GraphScope, order: Keyset, after: str | None, limit: int
) -> _CheckedPage:
    page_slice = await fetch_slice(session, loader.select_edges(scope), order, limit, after)
    edges = [loader.edge_row(*row) for row in page_slice.rows]
    evidence = await loader.load_evidence(session, scope, Kind.EDGE, [edge.id for edge in edges])
    ends = {end for edge in edges for end in (edge.source_id, edge.target_id)}
    types = await loader.load_node_types(session, scope, ends)
    all_faults = list(
        _check_evidence(scope.agent_id, {edge.id: edge.type for edge in edges}, evidence)
    )
    for edge in edges:
        existing_ends = {
            end: types[end] for end in (edge.source_id, edge.target_id) if end in types
        }
        faults = checks.check_edge(scope.agent_id, edge, evidence.get(edge.id, ()), existing_ends)
        all_faults += [FoundFault(Link.EDGE, edge.id, edge.type, fault) for fault in faults]
    return _CheckedPage(
        CheckedCounts(edges=len(edges), evidence=_count(evidence)), all_faults, page_slice.next
    )


async def _find_doubts(session: AsyncSession, conclusions: Sequence[NodeRow]) -> list[ElementDoubt]:
    doubts_by_conclusion = await doubts.list_doubts(
        session, [conclusion.id for conclusion in conclusions]
    )
    return [
        ElementDoubt(
            **doubt.model_dump(),
            link=link_of(conclusion.type),
            id=conclusion.id,
            name=conclusion.name,
        )
        for conclusion in conclusions
        for doubt in doubts_by_conclusion.get(conclusion.id, ())
    ]


def _check_evidence(
    agent_id: UUID, names: Mapping[UUID, str], evidence: Mapping[UUID, Sequence[QuotedEvidence]]
) -> Iterator[FoundFault]:
    for element_id, quotes in evidence.items():
        for quoted in quotes:
            for fault in checks.check_evidence(agent_id, quoted):
                yield FoundFault(Link.EVIDENCE, quoted.row.id, f"of {names[element_id]}", fault)


def _node_faults(node: NodeRow, faults: Iterable[Fault]) -> list[FoundFault]:
    return [FoundFault(link_of(node.type), node.id, node.name, fault) for fault in faults]


def _count(evidence: Mapping[UUID, Sequence[QuotedEvidence]]) -> int:
    return sum(map(len, evidence.values()))


def _parse_cursor(cursor: str | None) -> tuple[int, str | None]:
    """The stage and the key within it. Raises InvalidCursorError."""
    if cursor is None:
        return 0, None
    stage, after = pagination.decode_cursor(_CURSOR, (int, str), cursor)
    if not isinstance(stage, int) or not 0 <= stage < len(_STAGES):
        raise InvalidCursorError(
            f"{cursor[:40]!r} is no cursor of this list: leave it out to begin"
        )
    return stage, str(after) or None


def _next_cursor(stage: int, key: str | None) -> str | None:
    if key is not None:
        return pagination.encode_cursor(_CURSOR, (stage, key))
    return None if stage + 1 == len(_STAGES) else pagination.encode_cursor(_CURSOR, (stage + 1, ""))


def _break_view(located: FoundFault) -> ElementFault:
    return ElementFault(
        broken=located.fault.kind,
        message=located.fault.description,
        link=located.link,
        id=located.id,
        name=located.name,
    )


BATCH_SIZE: Final = 1000
"""Ids per statement."""


@dataclass
class Chain:
    """Everything that a conclusion rests on, by id in the order of its discovery, and its faults."""

    nodes: dict[UUID, NodeRow] = field(default_factory=dict)
    edges: dict[UUID, EdgeRow] = field(default_factory=dict)
    cited: dict[UUID, list[UUID]] = field(default_factory=dict)
    """By conclusion the cited elements that exist."""
    evidence: dict[UUID, list[QuotedEvidence]] = field(default_factory=dict)
    """By node or edge id."""
    sources: dict[UUID, LoadedSource] = field(default_factory=dict)
    faults: dict[UUID, list[Fault]] = field(default_factory=dict)
    doubts: Mapping[UUID, list[DoubtResponse]] = field(default_factory=dict)
    """By conclusion."""

    def rests_on(self) -> dict[UUID, list[UUID]]:
        """For each id the ids that it directly rests on."""
        dependencies = {quoted: list(cited) for quoted, cited in self.cited.items()}
        for element_id, evidence in self.evidence.items():
            dependencies[element_id] = [quoted.row.id for quoted in evidence]
            dependencies |= {quoted.row.id: [quoted.row.source_id] for quoted in evidence}
        for edge in self.edges.values():
            dependencies[edge.id] = [*dependencies.get(edge.id, ()), edge.source_id, edge.target_id]
        return dependencies


async def walk_chain(session: AsyncSession, scope: GraphScope, root: UUID) -> Chain:
    """Load and check the chain of the conclusion `root`; empty if the agent has no such conclusion.

    Takes a few statements for each level down to the pages, whatever the size of the graph. Run it in a repeatable
    read transaction: otherwise concurrent writes look like faults.
    """
    chain = Chain()
    await _follow(session, scope, chain, root)
    for kind, elements in ((Kind.NODE, chain.nodes), (Kind.EDGE, chain.edges)):
        for ids in _batches(elements):
            chain.evidence |= await loader.load_evidence(session, scope, kind, ids)
    source_ids = {quoted.row.source_id for quotes in chain.evidence.values() for quoted in quotes}
    for ids in _batches(source_ids):
        sources = await loader.load_sources(session, scope, ids)
        chain.sources |= {source.row.id: source for source in sources}
    await _check(session, scope, chain)
    chain.doubts = await doubts.list_doubts(
        session, [row.id for row in chain.nodes.values() if checks.is_conclusion(row)]
    )
    return chain


async def _follow(session: AsyncSession, scope: GraphScope, chain: Chain, root: UUID) -> None:
    """Load the nodes and edges of the chain."""
    nodes, edges = {root}, set[UUID]()
    while nodes or edges:
        new_nodes, new_edges = dict[UUID, NodeRow](), dict[UUID, EdgeRow]()
        for ids in _batches(nodes):
            new_nodes |= await loader.load_nodes(session, scope, ids)
        for ids in _batches(edges):
            new_edges |= await loader.load_edges(session, scope, ids)
        chain.nodes |= new_nodes
        chain.edges |= new_edges
        nodes = {end for edge in new_edges.values() for end in (edge.source_id, edge.target_id)}
        edges = set[UUID]()
        conclusions = [row for row in new_nodes.values() if checks.is_conclusion(row)]
        cited = {row.id: checks.cited_by(row) for row in conclusions}
        cited_ids = {cited_id for texts in cited.values() for cited_id in texts.ids()}
        current = await loader.load_current_ids(session, scope, cited_ids)
        for conclusion, texts in cited.items():
            chain.cited[conclusion] = list(
                dict.fromkeys(current[cited_id] for cited_id in texts.ids())
            )
            nodes |= {current[cited_id] for cited_id in texts.ids(Kind.NODE)}
            edges |= {current[cited_id] for cited_id in texts.ids(Kind.EDGE)}
        nodes -= chain.nodes.keys()
        edges -= chain.edges.keys()


async def _check(session: AsyncSession, scope: GraphScope, chain: Chain) -> None:
    conclusions = [row for row in chain.nodes.values() if checks.is_conclusion(row)]
    support = await loader.load_support(session, scope, conclusions)
    types = {row.id: row.type for row in chain.nodes.values()}
    agent_id = scope.agent_id

    def iter_checks() -> Iterator[tuple[UUID, Iterator[Fault]]]:
        for node in chain.nodes.values():
            yield node.id, checks.check_node(agent_id, node, _of(chain, node.id))
        for conclusion in conclusions:
            yield conclusion.id, checks.check_conclusion(conclusion, support)
        for edge in chain.edges.values():
            ends = {end: types[end] for end in (edge.source_id, edge.target_id) if end in types}
            yield edge.id, checks.check_edge(agent_id, edge, _of(chain, edge.id), ends)
        for evidence in chain.evidence.values():
            for quoted in evidence:
                yield quoted.row.id, checks.check_evidence(agent_id, quoted)
        for source in chain.sources.values():
            yield source.row.id, checks.check_source(agent_id, source.row, source.text_sha256)

    for row_id, faults in iter_checks():
        for fault in faults:
            chain.faults.setdefault(row_id, []).append(fault)


def _of(chain: Chain, element_id: UUID) -> Sequence[QuotedEvidence]:
    return chain.evidence.get(element_id, ())


def _batches(ids: Iterable[UUID]) -> Iterator[list[UUID]]:
    all_ids = list(ids)
    for start in range(0, len(all_ids), BATCH_SIZE):
        yield all_ids[start : start + BATCH_SIZE]


async def verify_conclusion(
    session: AsyncSession, owner_id: UUID, conclusion_id: UUID
) -> VerificationResponse | None:
    """Verify a conclusion of the owner; None if there is none of that id.

    Run it in a repeatable read transaction.
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
    chain = await walk_chain(session, GraphScope(owner_id, agent_id), conclusion_id)
    return _ReportBuilder(chain).build(agent_id, conclusion_id)


class _ReportBuilder:
    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._rests_on = chain.rests_on()
        self._unproven = find_unproven(self._rests_on, chain.faults)

    def build(self, agent_id: UUID, root: UUID) -> VerificationResponse:
        nodes = self._chain.nodes.values()
        elements: list[ThingRow] = [row for row in nodes if not is_conclusion(row)]
        elements += self._chain.edges.values()
        return VerificationResponse(
            id=root,
            agent_id=agent_id,
            holds=root not in self._unproven,
            conclusions=[self._conclusion_link(row) for row in nodes if is_conclusion(row)],
            elements=[self._element_link(row) for row in elements],
            evidence=[
                link
                for quotes in self._chain.evidence.values()
                for link in self._evidence_links(quotes)
            ],
            sources=[self._source_link(source) for source in self._chain.sources.values()],
        )

    def _conclusion_link(self, row: NodeRow) -> ConclusionLink:
        return ConclusionLink(
            id=row.id,
            holds=self._is_proven(row.id),
            breaks=self._breaks(row.id),
            link=link_of(row.type),
            name=row.name,
            summary=str(row.properties.get("summary", "")),
            rests_on=self._rests_on.get(row.id, []),
            doubts=self._chain.doubts.get(row.id, []),
        )

    def _element_link(self, row: ThingRow) -> ElementLink:
        return ElementLink(
            id=row.id,
            holds=self._is_proven(row.id),
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
        ends = (self._chain.nodes.get(end) for end in (row.source_id, row.target_id))
        return " → ".join(end.name if end else "?" for end in ends)

    def _evidence_links(self, evidence_of_element: Iterable[QuotedEvidence]) -> list[EvidenceLink]:
        evidence = list(evidence_of_element)
        winners = current_claims(quoted.claim for quoted in evidence)
        by_id: dict[UUID, list[str]] = {}
        for name, claim in winners.items():
            by_id.setdefault(claim.evidence_id, []).append(name)
        return [self._evidence_link(quoted, by_id.get(quoted.row.id, [])) for quoted in evidence]

    def _evidence_link(self, quoted: QuotedEvidence, active_properties: list[str]) -> EvidenceLink:
        row = quoted.row
        return EvidenceLink(
            id=row.id,
            holds=self._is_proven(row.id),
            breaks=self._breaks(row.id),
            element_id=row.element_id,
            source_id=row.source_id,
            quote=quoted.quote.decode(errors="replace"),
            first_byte=row.first_byte,
            end_byte=row.end_byte,
            claims=row.claims,
            active_properties=active_properties,
            valid_from=row.valid_from,
            valid_to=row.valid_to,
            as_of=row.as_of,
            learned_at=row.learned_at,
        )

    def _source_link(self, source: LoadedSource) -> SourceLink:
        row = source.row
        return SourceLink(
            id=row.id,
            holds=self._is_proven(row.id),
            breaks=self._breaks(row.id),
            url=row.url,
            title=row.title,
            published=row.published,
            fetched_at=row.fetched_at,
            retracted_at=row.retracted_at,
        )

    def _is_proven(self, row_id: UUID) -> bool:
        return row_id not in self._unproven

    def _breaks(self, row_id: UUID) -> list[LinkFault]:
        faults = self._chain.faults.get(row_id, ())
        return [LinkFault(broken=fault.kind, message=fault.description) for fault in faults]
