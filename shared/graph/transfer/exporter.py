"""Export of a graph, in batches of constant memory."""

import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.agents import agents, configuration
from shared.database.pagination import Keyset, slices_of
from shared.database.tables import Agent, Doubt, Evidence, GraphEdge, GraphNode, Source, Step
from shared.graph.conclusions.citations import Kind
from shared.graph.entity_resolution import aliases as node_aliases
from shared.graph.entity_resolution import redirects
from shared.graph.provenance.claims import folded
from shared.graph.provenance.integrity import (
    EdgeRow,
    EvidenceRow,
    NodeRow,
    Row,
    SourceRow,
    ThingRow,
)
from shared.graph.scope import Scope
from shared.graph.types import EdgeType, NodeType, edge_types, node_types
from shared.graph.verification import loader
from shared.graph.verification.checks import Spanned, is_conclusion

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
        wanted = select(*loader.SOURCE, Source.text, Source.step_id).where(
            Source.agent_id == self._scope.agent()
        )
        order = loader.SOURCES_IN_ORDER
        async for rows in slices_of(self._session, wanted, order, SOURCES_AT_ONCE):
            for *columns, text, step_id in rows:
                yield SourceTold(loader.source_row(*columns), text, step_id)

    async def nodes(self) -> AsyncIterator[ThingTold]:
        """Conclusions too."""
        wanted = loader.all_nodes(self._scope).add_columns(GraphNode.step_id)
        order = loader.NODES_IN_ORDER
        async for rows in slices_of(self._session, wanted, order, THINGS_AT_ONCE):
            known = [(loader.node_row(*columns), step_id) for *columns, step_id in rows]
            for each in await self._with_evidence(Kind.NODE, known):
                yield each

    async def edges(self) -> AsyncIterator[ThingTold]:
        wanted = loader.all_edges(self._scope).add_columns(GraphEdge.step_id)
        order = loader.EDGES_IN_ORDER
        async for rows in slices_of(self._session, wanted, order, THINGS_AT_ONCE):
            known = [(loader.edge_row(*columns), step_id) for *columns, step_id in rows]
            for each in await self._with_evidence(Kind.EDGE, known):
                yield each

    async def _with_evidence(
        self,
        kind: Kind,
        known: "list[tuple[NodeRow, UUID | None]] | list[tuple[EdgeRow, UUID | None]]",
    ) -> list[ThingTold]:
        ids = [row.id for row, _ in known]
        evidence = await loader.evidence_of(self._session, self._scope, kind, ids)
        earlier = await redirects.earlier_ids(self._session, ids)
        found = [each.row.id for of_thing in evidence.values() for each in of_thing]
        steps = await self._steps_of(found)
        doubts = await self._doubts_of([row.id for row, _ in known if is_conclusion(row)])
        called = (
            await node_aliases.of_nodes(self._session, self._scope, ids)
            if kind is Kind.NODE
            else {}
        )
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
    return {phase.value: prompt for phase, prompt in configuration.of_agent(agent).items()}


FORMAT: Final = "vigil-graph"
VERSION: Final = 1


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class AgentLine(_Line):
    id: UUID
    name: str
    mission: str
    interval_seconds: int
    models: dict[str, str]
    prompts: dict[str, str]


class Head(_Line):
    format: Literal["vigil-graph"] = FORMAT
    version: Literal[1] = VERSION
    exported_at: datetime
    agent: AgentLine


class NodeTypeLine(_Line):
    name: str
    description: str
    properties_schema: dict[str, Any]
    example_properties: dict[str, Any]
    justification: str | None = None
    created_by: str
    created_at: datetime


class EdgeTypeLine(NodeTypeLine):
    source_types: list[str]
    target_types: list[str]


class SourceLine(SourceRow):
    text: str


class DoubtLine(_Line):
    """That a conclusion is in doubt: of what it rests on, and because of which page."""

    thing_id: UUID
    source_id: UUID
    since: datetime


class NodeLine(NodeRow):
    evidence: list[EvidenceRow]
    earlier_ids: tuple[UUID, ...] = ()
    """By which conclusions may cite it too: of nodes that were merged into it."""
    names: dict[str, str] = Field(default_factory=dict)
    """All that it is called, by key: whoever writes of it by any of them writes to it."""
    doubts: tuple[DoubtLine, ...] = ()
    """Of a conclusion."""


class EdgeLine(EdgeRow):
    evidence: list[EvidenceRow]
    earlier_ids: tuple[UUID, ...] = ()


class Counts(_Line):
    node_types: int = 0
    edge_types: int = 0
    sources: int = 0
    nodes: int = 0
    edges: int = 0
    evidence: int = 0


class End(_Line):
    counts: Counts
    sha256: str
    """Of all lines before this one, with their ends, in hex."""


ContentLine = NodeTypeLine | EdgeTypeLine | SourceLine | NodeLine | EdgeLine
"""What stands between head and end."""
KINDS: Final[dict[str, type[ContentLine]]] = {
    "node_type": NodeTypeLine,
    "edge_type": EdgeTypeLine,
    "source": SourceLine,
    "node": NodeLine,
    "edge": EdgeLine,
}
"""By the word that each line begins with, in the order in which they stand: `{"node":{…}}`."""
END: Final = "end"


def line(kind: str, value: _Line | Row) -> bytes:
    return b'{"%s":%s}\n' % (kind.encode(), value.model_dump_json().encode())


async def written(content: Content) -> AsyncIterator[bytes]:
    """Line by line."""
    told = hashlib.sha256()
    counts = Counter[str]()
    async for counted, text in _lines(content):
        told.update(text)
        counts.update(counted)
        yield text
    end = End(counts=Counts(**counts), sha256=told.hexdigest())
    yield line(END, end)


async def _lines(content: Content) -> AsyncIterator[tuple[dict[str, int], bytes]]:
    """Each with what it counts as."""
    yield {}, (await _head(content)).model_dump_json().encode() + b"\n"
    types = await content.types()
    for node_type in types.nodes:
        yield {"node_types": 1}, line("node_type", NodeTypeLine(**_type(node_type)))
    for edge_type in types.edges:
        yield {"edge_types": 1}, line("edge_type", EdgeTypeLine(**_type(edge_type)))
    async for source in content.sources():
        yield {"sources": 1}, line("source", _source(source))
    async for node in content.nodes():
        yield {"nodes": 1, "evidence": len(node.evidence)}, line("node", _thing(node))
    async for edge in content.edges():
        yield {"edges": 1, "evidence": len(edge.evidence)}, line("edge", _thing(edge))


async def _head(content: Content) -> Head:
    agent = await content.agent()
    return Head(
        exported_at=datetime.now(UTC),
        agent=AgentLine(
            id=agent.id,
            name=agent.name,
            mission=agent.mission,
            interval_seconds=agent.interval_seconds,
            models=agent.models,
            prompts=prompts_of(agent),
        ),
    )


def _type(known: NodeType | EdgeType) -> dict[str, Any]:
    return asdict(known)


def _source(told: SourceTold) -> SourceLine:
    return SourceLine.model_construct(**dict(told.row), text=told.text)


def _thing(told: ThingTold) -> NodeLine | EdgeLine:
    besides: dict[str, Any] = {
        "evidence": [each.row for each in told.evidence],
        "earlier_ids": told.earlier_ids,
    }
    if isinstance(told.row, NodeRow):
        besides["names"] = dict(told.names)
        besides["doubts"] = tuple(DoubtLine(**asdict(each)) for each in told.doubts)
        return NodeLine.model_construct(**dict(told.row), **besides)
    return EdgeLine.model_construct(**dict(told.row), **besides)
