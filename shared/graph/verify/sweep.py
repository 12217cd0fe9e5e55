"""All of a graph looked at, page by page: also what no conclusion cites, and pages that nothing quotes.

Each page is read in one transaction and costs the same wherever it lies, so that whoever asks for one after the other
needs no more memory for a million nodes than for ten.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph import doubts
from shared.graph.citations import Kind
from shared.graph.proof.rows import NodeRow
from shared.graph.scope import Scope
from shared.graph.verify import checks, load
from shared.graph.verify.checks import Spanned
from shared.graph.verify.faults import Fault, Found, Link, link_of
from shared.store.reading import cursors
from shared.store.reading.cursors import BadCursorError
from shared.store.reading.keyset import Keyset, long_slice_of
from shared.store.reading.proof_shapes import CheckedView, FoundBreak, FoundDoubt, VerificationPage

PAGE_ROWS: Final = 500
LARGEST_PAGE_ROWS: Final = 1000

_CURSOR: Final = "verification"
_STAGES: Final = (load.SOURCES_IN_ORDER, load.NODES_IN_ORDER, load.EDGES_IN_ORDER)


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
    broken: Sequence[Found]
    last: str | None
    """Where the stage goes on."""
    doubts: Sequence[FoundDoubt] = ()


async def _sources(
    session: AsyncSession, scope: Scope, order: Keyset, after: str | None, limit: int
) -> _Looked:
    part = await long_slice_of(session, load.all_sources(scope), order, limit, after)
    found = [load.source_found(*row) for row in part.rows]
    broken = [
        Found(Link.SOURCE, each.row.id, each.row.url, fault)
        for each in found
        for fault in checks.of_source(scope.agent_id, each.row, each.text_sha256)
    ]
    return _Looked(CheckedView(sources=len(found)), broken, part.next)


async def _nodes(
    session: AsyncSession, scope: Scope, order: Keyset, after: str | None, limit: int
) -> _Looked:
    part = await long_slice_of(session, load.all_nodes(scope), order, limit, after)
    nodes = [load.node_row(*row) for row in part.rows]
    evidence = await load.evidence_of(session, scope, Kind.NODE, [node.id for node in nodes])
    conclusions = [node for node in nodes if checks.is_conclusion(node)]
    support = await load.support_of(session, scope, conclusions)
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
    part = await long_slice_of(session, load.all_edges(scope), order, limit, after)
    edges = [load.edge_row(*row) for row in part.rows]
    evidence = await load.evidence_of(session, scope, Kind.EDGE, [edge.id for edge in edges])
    ends = {end for edge in edges for end in (edge.source_id, edge.target_id)}
    types = await load.node_types(session, scope, ends)
    broken = list(_of_evidence(scope.agent_id, {edge.id: edge.type for edge in edges}, evidence))
    for edge in edges:
        there = {end: types[end] for end in (edge.source_id, edge.target_id) if end in types}
        faults = checks.of_edge(scope.agent_id, edge, evidence.get(edge.id, ()), there)
        broken += [Found(Link.EDGE, edge.id, edge.type, fault) for fault in faults]
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
) -> Iterator[Found]:
    for thing, known in evidence.items():
        for each in known:
            for fault in checks.of_evidence(agent_id, each):
                yield Found(Link.EVIDENCE, each.row.id, f"of {names[thing]}", fault)


def _in_node(node: NodeRow, faults: Iterable[Fault]) -> list[Found]:
    return [Found(link_of(node.type), node.id, node.name, fault) for fault in faults]


def _count(evidence: Mapping[UUID, Sequence[Spanned]]) -> int:
    return sum(map(len, evidence.values()))


def _place(cursor: str | None) -> tuple[int, str | None]:
    """The stage, and where in it. Raises BadCursorError."""
    if cursor is None:
        return 0, None
    stage, after = cursors.read(_CURSOR, (int, str), cursor)
    if not isinstance(stage, int) or not 0 <= stage < len(_STAGES):
        raise BadCursorError(f"{cursor[:40]!r} is no cursor of this list: leave it out to begin")
    return stage, str(after) or None


def _next(stage: int, last: str | None) -> str | None:
    if last is not None:
        return cursors.written(_CURSOR, (stage, last))
    return None if stage + 1 == len(_STAGES) else cursors.written(_CURSOR, (stage + 1, ""))


def _told(found: Found) -> FoundBreak:
    return FoundBreak(
        broken=found.fault.broken,
        told=found.fault.told,
        link=found.link,
        id=found.id,
        name=found.name,
    )
