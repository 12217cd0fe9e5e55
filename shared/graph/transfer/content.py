"""All that an agent knows and what it rests on, a batch at a time: whoever writes it out needs the memory of one."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph import names
from shared.graph.citations import Kind
from shared.graph.proof.fold import folded
from shared.graph.proof.rows import EdgeRow, NodeRow, SourceRow, ThingRow
from shared.graph.scope import Scope
from shared.graph.types import EdgeType, NodeType, edge_types, node_types
from shared.graph.verify import load
from shared.graph.verify.checks import Spanned, is_conclusion
from shared.store import agents, prompts
from shared.store.reading import moves
from shared.store.reading.keyset import Keyset, slices_of
from shared.store.tables import Agent, Doubt, Evidence, GraphEdge, GraphNode, Source, Step

SOURCES_AT_ONCE: Final = 50
"""Each with its text."""
THINGS_AT_ONCE: Final = 500
"""Nodes or edges, each with its evidence."""

_STEPS_IN_ORDER: Final = Keyset("all steps", (Step.id,), descending=False)


@dataclass(frozen=True)
class StepTold:
    id: UUID
    kind: str
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True)
class SourceTold:
    row: SourceRow
    text: str
    step_id: UUID | None


@dataclass(frozen=True)
class DoubtTold:
    thing_id: UUID
    source_id: UUID
    since: datetime


@dataclass(frozen=True)
class ThingTold:
    """A node or edge with all of its evidence."""

    row: ThingRow
    evidence: tuple[Spanned, ...]
    step_id: UUID | None
    steps: dict[UUID, UUID | None]
    """By evidence: in which step it was found."""
    earlier_ids: tuple[UUID, ...] = ()
    """Of what was merged into it; conclusions may still cite them."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Of a node all that it is called, by key."""
    doubts: Sequence[DoubtTold] = ()
    """Of a conclusion, those that are open."""


@dataclass(frozen=True)
class Types:
    nodes: list[NodeType]
    edges: list[EdgeType]


class Content:
    """Of one agent. Give it a transaction of repeatable reads, in which all of it is of one moment."""

    def __init__(self, session: AsyncSession, scope: Scope) -> None:
        self._session = session
        self._scope = scope

    async def agent(self) -> Agent:
        """Raises TransientError where it was deleted."""
        return await agents.get(self._session, self._scope.agent_id)

    async def types(self) -> Types:
        found = (
            await node_types(self._session, self._scope),
            await edge_types(self._session, self._scope),
        )
        return Types(*found)

    async def steps(self) -> AsyncIterator[StepTold]:
        wanted = select(Step.id, Step.kind, Step.started_at, Step.ended_at).where(
            Step.agent_id == self._scope.agent()
        )
        async for rows in slices_of(self._session, wanted, _STEPS_IN_ORDER, THINGS_AT_ONCE):
            for row in rows:
                yield StepTold(*row)

    async def sources(self) -> AsyncIterator[SourceTold]:
        wanted = select(*load.SOURCE, Source.text, Source.step_id).where(
            Source.agent_id == self._scope.agent()
        )
        order = load.SOURCES_IN_ORDER
        async for rows in slices_of(self._session, wanted, order, SOURCES_AT_ONCE):
            for *columns, text, step_id in rows:
                yield SourceTold(load.source_row(*columns), text, step_id)

    async def nodes(self) -> AsyncIterator[ThingTold]:
        """Conclusions too."""
        wanted = load.all_nodes(self._scope).add_columns(GraphNode.step_id)
        order = load.NODES_IN_ORDER
        async for rows in slices_of(self._session, wanted, order, THINGS_AT_ONCE):
            known = [(load.node_row(*columns), step_id) for *columns, step_id in rows]
            for each in await self._with_evidence(Kind.NODE, known):
                yield each

    async def edges(self) -> AsyncIterator[ThingTold]:
        wanted = load.all_edges(self._scope).add_columns(GraphEdge.step_id)
        order = load.EDGES_IN_ORDER
        async for rows in slices_of(self._session, wanted, order, THINGS_AT_ONCE):
            known = [(load.edge_row(*columns), step_id) for *columns, step_id in rows]
            for each in await self._with_evidence(Kind.EDGE, known):
                yield each

    async def _with_evidence(
        self,
        kind: Kind,
        known: "list[tuple[NodeRow, UUID | None]] | list[tuple[EdgeRow, UUID | None]]",
    ) -> list[ThingTold]:
        ids = [row.id for row, _ in known]
        evidence = await load.evidence_of(self._session, self._scope, kind, ids)
        earlier = await moves.earlier_ids(self._session, ids)
        found = [each.row.id for of_thing in evidence.values() for each in of_thing]
        steps = await self._steps_of(found)
        doubts = await self._doubts_of([row.id for row, _ in known if is_conclusion(row)])
        called = await names.of_nodes(self._session, self._scope, ids) if kind is Kind.NODE else {}
        return [
            ThingTold(
                self._followed_up(row, of_it),
                tuple(of_it),
                step_id,
                {each.row.id: steps[each.row.id] for each in of_it},
                tuple(earlier.get(row.id, ())),
                called.get(row.id, {}),
                doubts.get(row.id, ()),
            )
            for row, step_id in known
            for of_it in [evidence.get(row.id, [])]
        ]

    def _followed_up(self, row: ThingRow, evidence: Sequence[Spanned]) -> ThingRow:
        """As it will be when the retractions that are being gone through are done; what was changed otherwise stays so."""
        agent_id, ids = self._scope.agent_id, [each.row.id for each in evidence]
        if not any(each.is_due for each in evidence) or row.seal != row.sealed(agent_id, ids):
            return row
        now = folded(row.properties, [each.claim for each in evidence])
        followed = row.model_copy(update={"properties": now})
        return followed.model_copy(update={"seal": followed.sealed(agent_id, ids)})

    async def _doubts_of(self, conclusions: list[UUID]) -> dict[UUID, list[DoubtTold]]:
        found: dict[UUID, list[DoubtTold]] = {}
        if conclusions:
            open_ones = Doubt.conclusion_id.in_(conclusions), Doubt.cleared_at.is_(None)
            told = select(Doubt.conclusion_id, Doubt.thing_id, Doubt.source_id, Doubt.since)
            for row in await self._session.execute(told.where(*open_ones).order_by(Doubt.id)):
                found.setdefault(row[0], []).append(DoubtTold(*row[1:]))
        return found

    async def _steps_of(self, evidence: list[UUID]) -> dict[UUID, UUID | None]:
        if not evidence:
            return {}
        rows = await self._session.execute(
            select(Evidence.id, Evidence.step_id).where(Evidence.id.in_(evidence))
        )
        return dict(rows.all())


def prompts_of(agent: Agent) -> dict[str, str]:
    """By phase."""
    return {phase.value: prompt for phase, prompt in prompts.of_agent(agent).items()}
