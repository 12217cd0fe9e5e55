"""A graph that comes from a file into a new agent: every row is checked as it was, then written as the new agent's own."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, cast
from uuid import UUID

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph import citing
from shared.graph.scope import Scope
from shared.graph.transfer import anew
from shared.graph.transfer.checking import Checker, Known, Ready, Rows
from shared.graph.transfer.copying import copy_rows
from shared.graph.transfer.lines import DoubtLine, EdgeLine, NodeLine, SourceLine
from shared.graph.transfer.map import Arrived
from shared.graph.transfer.reading import Read
from shared.graph.transfer.retracted import keep_doubts, keep_retractions
from shared.graph.transfer.spans import spanned
from shared.graph.type_names import RESERVED_TYPES
from shared.graph.verify import checks, load
from shared.store.reading.keyset import slices_of
from shared.store.tables import Citation, GraphEdgeType, GraphNode, GraphNodeType

LINES_AT_ONCE: Final = 1_000
HEAVIEST: Final = 8 * 1024**2
"""Bytes of pages, and of evidence by its weight, of one batch; three are held at once."""
_EVIDENCE_WEIGHT: Final = 2000
_TYPES: Final = {"node_type": GraphNodeType, "edge_type": GraphEdgeType}


class Arrival:
    """Of one graph, in one transaction: what is refused, cut short or killed has left nothing behind."""

    def __init__(self, session: AsyncSession, scope: Scope, old_agent: UUID) -> None:
        """`scope` is the new agent's; `old_agent` is whose graph it was."""
        self._session = session
        self._scope = scope
        self._agent_id = scope.agent_id
        self._checker = Checker(old_agent, scope)
        self._arrived = Arrived(session)
        self._waiting: Ready | None = None
        """Checked, and not written yet."""
        self._doubted: list[tuple[UUID, DoubtLine]] = []

    async def take(self, contents: Iterable[Read]) -> None:
        """Raises BadFileError where a row is not as it was when it was sealed, or speaks of what is not there.

        While PostgreSQL writes one batch, a thread checks the next and reads the one after it: each takes about as long.
        """
        await self._arrived.begin()
        batches = _batches(contents)
        batch = await asyncio.to_thread(next, batches, None)
        while batch is not None:
            kind = batch[0].kind
            if self._waiting is not None and self._waiting.kind != kind:
                await self._write()  # what comes now speaks of it
            if kind in _TYPES:
                await self._types(batch)
                batch = await asyncio.to_thread(next, batches, None)
            else:
                batch = await self._check(batch, batches)
        await self._write()
        await self._cite_anew()
        await keep_retractions(self._session, self._scope)
        await keep_doubts(self._session, self._arrived, self._doubted)

    async def _check(self, batch: list[Read], batches: Iterator[list[Read]]) -> list[Read] | None:
        """The batch after it."""
        known = await self._known(batch)

        def checked() -> tuple[Ready, list[Read] | None]:
            return self._checker.ready(batch, known), next(batches, None)

        # Both to their end: nothing may still use the connection, or read the file, when one of them has failed.
        written, told = await asyncio.gather(
            self._write(), asyncio.to_thread(checked), return_exceptions=True
        )
        for outcome in (written, told):  # what stands first in the file is told of first
            if isinstance(outcome, BaseException):
                raise outcome
        self._waiting, following = cast(tuple[Ready, list[Read] | None], told)
        return following

    async def _types(self, batch: Sequence[Read]) -> None:
        table = _TYPES[batch[0].kind]
        for each in batch:
            self._session.add(table(agent_id=self._agent_id, **each.value.model_dump()))
        await self._session.flush()

    async def _known(self, batch: Sequence[Read]) -> Known:
        lines = [read.value for read in batch]
        if isinstance(lines[0], SourceLine):
            return Known()
        things = [line for line in lines if isinstance(line, NodeLine | EdgeLine)]
        evidence = [each for line in things for each in line.evidence]
        sources = await self._arrived.sources({each.source_id for each in evidence})
        found = iter(await spanned(self._session, evidence, sources))
        quoted = [[next(found) for _ in line.evidence] for line in things]
        edges = [line for line in things if isinstance(line, EdgeLine)]
        ends = {end for edge in edges for end in (edge.source_id, edge.target_id)}
        return Known(sources, quoted, await self._arrived.new_ids(ends))

    async def _write(self) -> None:
        """What waits, if anything does."""
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return
        for table, rows in waiting.tables:
            await copy_rows(self._session, table, rows)
        await self._arrived.add(waiting.pairs)
        self._doubted += waiting.doubted

    async def _cite_anew(self) -> None:
        """Conclusions cite what came after them too, so that they are brought up to it at the end."""
        wanted = load.all_nodes(self._scope).where(GraphNode.type.in_(sorted(RESERVED_TYPES)))
        order = load.NODES_IN_ORDER
        async for rows in slices_of(self._session, wanted, order, LINES_AT_ONCE):
            nodes = [load.node_row(*row) for row in rows]
            cited = {each for node in nodes for each in checks.cited_by(node).ids()}
            new_ids = await self._arrived.new_ids(cited)
            changed, citations = Rows(), Rows()
            for node in nodes:
                told = node.model_copy(
                    update={"properties": anew.recited(node.properties, new_ids)}
                )
                seal = told.seal and told.sealed(self._agent_id, [])
                changed.append({"id": node.id, "properties": told.properties, "seal": seal})
                cited_now = set(citing.cited_in(told.properties))
                citations += [{"conclusion_id": node.id, "cited_id": each} for each in cited_now]
            if changed:
                await self._session.execute(update(GraphNode), changed)
                await copy_rows(self._session, Citation.__tablename__, citations)


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
