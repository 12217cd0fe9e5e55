"""A graph that comes from a file into a new agent: every row is checked as it was, then written as the new agent's own."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar
from uuid import UUID

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.citations import Kind
from shared.graph.proof import seals
from shared.graph.proof.rows import EvidenceRow
from shared.graph.scope import Scope
from shared.graph.transfer import anew
from shared.graph.transfer.copying import copy_rows
from shared.graph.transfer.lines import EdgeLine, NodeLine, SourceLine
from shared.graph.transfer.map import Arrived
from shared.graph.transfer.reading import BadFileError, Read
from shared.graph.transfer.spans import Sources, spanned
from shared.graph.type_names import RESERVED_TYPES
from shared.graph.verify import checks, load
from shared.graph.verify.checks import Spanned
from shared.graph.verify.faults import Broken, Fault
from shared.store.reading.keyset import slices_of
from shared.store.tables import Evidence as EvidenceTable
from shared.store.tables import GraphEdge, GraphEdgeType, GraphNode, GraphNodeType, Source

LINES_AT_ONCE: Final = 500
HEAVIEST: Final = 8 * 1024**2
"""Bytes of pages, and of evidence by its weight, that are held at once."""
_EVIDENCE_WEIGHT: Final = 2000

Rows = list[dict[str, Any]]
T = TypeVar("T", SourceLine, NodeLine, EdgeLine)


class Arrival:
    """Of one graph, in one transaction: what is refused, cut short or killed has left nothing behind."""

    def __init__(self, session: AsyncSession, scope: Scope, old_agent: UUID) -> None:
        """`scope` is the new agent's; `old_agent` is whose graph it was."""
        self._session = session
        self._scope = scope
        self._agent_id = scope.agent_id
        self._old_agent = old_agent
        self._arrived = Arrived(session)

    async def take(self, contents: Iterable[Read]) -> None:
        """Raises BadFileError where a row is not as it was when it was sealed, or speaks of what is not there."""
        await self._arrived.begin()
        for batch in _batches(contents):
            match batch[0].kind:
                case "node_type" | "edge_type":
                    await self._types(batch)
                case "source":
                    await self._sources(batch)
                case "node":
                    await self._nodes(batch)
                case _:
                    await self._edges(batch)
        await self._cite_anew()

    async def _types(self, batch: Sequence[Read]) -> None:
        table = GraphNodeType if batch[0].kind == "node_type" else GraphEdgeType
        for each in batch:
            self._session.add(table(agent_id=self._agent_id, **each.value.model_dump()))
        await self._session.flush()

    async def _sources(self, batch: Sequence[Read]) -> None:
        rows: Rows = []
        known: dict[UUID, bool] = {}
        pairs: list[tuple[UUID, UUID]] = []
        for number, line in _of_kind(batch, SourceLine):
            text_sha256 = seals.sha256(line.text)
            _refuse(number, checks.of_source(self._old_agent, line, text_sha256))
            moved = anew.source(self._agent_id, line)
            rows.append({"agent_id": self._agent_id, **moved.model_dump()})
            pairs.append((line.id, moved.id))
            known[line.id] = line.retracted_at is not None
        await copy_rows(self._session, Source.__tablename__, rows)
        for retracted in (False, True):
            of_them = [pair for pair in pairs if known[pair[0]] is retracted]
            await self._arrived.add(of_them, retracted=retracted)

    async def _nodes(self, batch: Sequence[Read]) -> None:
        lines = list(_of_kind(batch, NodeLine))
        sources = await self._sources_of(line.evidence for _, line in lines)
        quoted = await self._spanned([line.evidence for _, line in lines], sources)
        nodes, evidence, pairs = Rows(), Rows(), list[tuple[UUID, UUID]]()
        for (number, line), of_it in zip(lines, quoted, strict=True):
            self._refuse_evidence(number, of_it)
            _refuse(number, checks.of_node(self._old_agent, line, of_it))
            new_id = anew.node_id(self._old_agent, self._agent_id, line)
            pairs += [(old, new_id) for old in (line.id, *line.earlier_ids)]
            moved = self._moved(line.evidence, new_id, sources)
            evidence += [self._evidence(each, Kind.NODE) for each in moved]
            row = anew.node(self._agent_id, line, new_id, [each.id for each in moved])
            flag = _unsupported_since(line.updated_at, line.evidence, sources)
            nodes.append(self._thing({**row.model_dump(exclude=_BESIDES), **flag}))
        await copy_rows(self._session, GraphNode.__tablename__, nodes)
        await copy_rows(self._session, EvidenceTable.__tablename__, evidence)
        await self._arrived.add(pairs)

    async def _edges(self, batch: Sequence[Read]) -> None:
        lines = list(_of_kind(batch, EdgeLine))
        sources = await self._sources_of(line.evidence for _, line in lines)
        quoted = await self._spanned([line.evidence for _, line in lines], sources)
        ends = await self._arrived.new_ids(
            {end for _, line in lines for end in (line.source_id, line.target_id)}
        )
        there = dict.fromkeys(ends, "")
        edges, evidence, pairs = Rows(), Rows(), list[tuple[UUID, UUID]]()
        for (number, line), of_it in zip(lines, quoted, strict=True):
            self._refuse_evidence(number, of_it)
            _refuse(number, checks.of_edge(self._old_agent, line, of_it, there))
            row = anew.edge(self._agent_id, line, ends[line.source_id], ends[line.target_id])
            pairs += [(old, row.id) for old in (line.id, *line.earlier_ids)]
            moved = self._moved(line.evidence, row.id, sources)
            evidence += [self._evidence(each, Kind.EDGE) for each in moved]
            row = anew.sealed_edge(self._agent_id, row, [each.id for each in moved])
            flag = _unsupported_since(line.updated_at, line.evidence, sources)
            edges.append(self._thing({**row.model_dump(exclude=_BESIDES), **flag}))
        await copy_rows(self._session, GraphEdge.__tablename__, edges)
        await copy_rows(self._session, EvidenceTable.__tablename__, evidence)
        await self._arrived.add(pairs)

    async def _sources_of(self, evidence: Iterable[Sequence[EvidenceRow]]) -> Sources:
        return await self._arrived.sources({each.source_id for of in evidence for each in of})

    async def _spanned(
        self, evidence: Sequence[Sequence[EvidenceRow]], sources: Sources
    ) -> list[list[Spanned]]:
        """Of each thing its own."""
        found = iter(await spanned(self._session, [e for of in evidence for e in of], sources))
        return [[next(found) for _ in of] for of in evidence]

    def _refuse_evidence(self, number: int, evidence: Sequence[Spanned]) -> None:
        for each in evidence:
            _refuse(number, checks.of_evidence(self._old_agent, each))

    def _moved(
        self, evidence: Sequence[EvidenceRow], thing_id: UUID, sources: Sources
    ) -> list[EvidenceRow]:
        return [
            anew.evidence(self._agent_id, each, thing_id, sources[each.source_id][0])
            for each in evidence
        ]

    def _evidence(self, row: EvidenceRow, kind: Kind) -> dict[str, Any]:
        values = row.model_dump()
        return self._thing({f"{kind}_id": values.pop("thing_id"), **values})

    def _thing(self, values: dict[str, Any]) -> dict[str, Any]:
        return {"agent_id": self._agent_id, **values}

    async def _cite_anew(self) -> None:
        """Conclusions cite what came after them too, so that they are brought up to it at the end."""
        wanted = load.all_nodes(self._scope).where(GraphNode.type.in_(sorted(RESERVED_TYPES)))
        order = load.NODES_IN_ORDER
        async for rows in slices_of(self._session, wanted, order, LINES_AT_ONCE):
            nodes = [load.node_row(*row) for row in rows]
            cited = {each for node in nodes for each in checks.cited_by(node).ids()}
            new_ids = await self._arrived.new_ids(cited)
            changed: Rows = []
            for node in nodes:
                told = node.model_copy(
                    update={"properties": anew.recited(node.properties, new_ids)}
                )
                seal = told.seal and told.sealed(self._agent_id, [])
                changed.append({"id": node.id, "properties": told.properties, "seal": seal})
            if changed:
                await self._session.execute(update(GraphNode), changed)


def _unsupported_since(
    moment: datetime, evidence: Sequence[EvidenceRow], sources: Sources
) -> dict[str, datetime | None]:
    """What rests on retracted pages alone was flagged when it was touched last."""
    alone = bool(evidence) and all(sources[each.source_id][1] for each in evidence)
    return {"unsupported_since": moment if alone else None}


_BESIDES: Final = {"evidence", "earlier_ids"}
"""What stands in a line beside the row."""


def _batches(contents: Iterable[Read]) -> Iterator[list[Read]]:
    """Lines of one kind, no more at once than memory is meant for."""
    batch: list[Read] = []
    weight = 0
    for read in contents:
        is_full = len(batch) >= LINES_AT_ONCE or weight >= HEAVIEST
        if batch and (is_full or batch[0].kind != read.kind):
            yield batch
            batch, weight = [], 0
        batch.append(read)
        weight += _weight(read)
    if batch:
        yield batch


def _weight(read: Read) -> int:
    match read.value:
        case SourceLine():
            return len(read.value.text)
        case NodeLine() | EdgeLine():
            return len(read.value.evidence) * _EVIDENCE_WEIGHT
        case _:
            return 0


def _of_kind(batch: Sequence[Read], kind: type[T]) -> Iterator[tuple[int, T]]:
    """With the number of each line."""
    for read in batch:
        assert isinstance(read.value, kind)
        yield read.number, read.value


def _refuse(number: int, faults: Iterable[Fault]) -> None:
    """Raises BadFileError for whatever is wrong; that something has no proof is not wrong."""
    for fault in faults:
        if fault.broken is not Broken.UNPROVEN:
            raise BadFileError(
                f"line {number}: {fault.told}: this graph was changed behind Vigil's back; "
                "`vigil verify --all`, where it came from, tells more"
            )
