"""Export of a graph as JSON Lines, in batches of constant memory."""

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
from shared.database.pagination import Keyset, iterate_batches
from shared.database.tables import Agent, Doubt, Evidence, GraphEdge, GraphNode, Source, Step
from shared.graph.conclusions.citations import Kind
from shared.graph.entity_resolution import aliases as node_aliases
from shared.graph.entity_resolution import redirects
from shared.graph.provenance.claims import project_properties
from shared.graph.provenance.integrity import (
    EdgeRow,
    EvidenceRow,
    NodeRow,
    Row,
    SourceRow,
    ThingRow,
)
from shared.graph.scope import GraphScope
from shared.graph.types import EdgeType, NodeType, list_edge_types, list_node_types
from shared.graph.verification import loader
from shared.graph.verification.checks import QuotedEvidence, is_conclusion

SOURCE_BATCH_SIZE: Final = 50
"""Sources include their text."""
ELEMENT_BATCH_SIZE: Final = 500
"""Nodes or edges with their evidence."""

_STEPS_IN_ORDER: Final = Keyset("all steps", (Step.id,), descending=False)


@dataclass(frozen=True)
class ExportedStep:
    id: UUID
    kind: str
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True)
class ExportedSource:
    row: SourceRow
    text: str
    step_id: UUID | None


@dataclass(frozen=True)
class ExportedDoubt:
    element_id: UUID
    source_id: UUID
    since: datetime


@dataclass(frozen=True)
class ExportedElement:
    """A node or edge with all of its evidence."""

    row: ThingRow
    evidence: tuple[QuotedEvidence, ...]
    step_id: UUID | None
    steps: dict[UUID, UUID | None]
    """By evidence id the step that found it."""
    earlier_ids: tuple[UUID, ...] = ()
    """Ids of elements merged into it, which conclusions may still cite."""
    names: Mapping[str, str] = field(default_factory=dict)
    """All names of a node, by key."""
    doubts: Sequence[ExportedDoubt] = ()
    """The open doubts about a conclusion."""


@dataclass(frozen=True)
class ExportedTypes:
    nodes: list[NodeType]
    edges: list[EdgeType]


class GraphContent:
    """The graph of one agent. Use it in a repeatable read transaction, so that all of it is from one moment."""

    def __init__(self, session: AsyncSession, scope: GraphScope) -> None:
        self._session = session
        self._scope = scope

    async def agent(self) -> Agent:
        """Raises TransientError if the agent was deleted."""
        return await agents.get_agent(self._session, self._scope.agent_id)

    async def types(self) -> ExportedTypes:
        types = (
            await list_node_types(self._session, self._scope),
            await list_edge_types(self._session, self._scope),
        )
        return ExportedTypes(*types)

    async def steps(self) -> AsyncIterator[ExportedStep]:
        statement = select(Step.id, Step.kind, Step.started_at, Step.ended_at).where(
            Step.agent_id == self._scope.owned_agent_id()
        )
        async for rows in iterate_batches(
            self._session, statement, _STEPS_IN_ORDER, ELEMENT_BATCH_SIZE
        ):
            for row in rows:
                yield ExportedStep(*row)

    async def sources(self) -> AsyncIterator[ExportedSource]:
        statement = select(*loader.SOURCE_COLUMNS, Source.text, Source.step_id).where(
            Source.agent_id == self._scope.owned_agent_id()
        )
        order = loader.SOURCES_IN_ORDER
        async for rows in iterate_batches(self._session, statement, order, SOURCE_BATCH_SIZE):
            for *columns, text, step_id in rows:
                yield ExportedSource(loader.source_row(*columns), text, step_id)

    async def nodes(self) -> AsyncIterator[ExportedElement]:
        """Nodes, including conclusions."""
        statement = loader.select_nodes(self._scope).add_columns(GraphNode.step_id)
        order = loader.NODES_IN_ORDER
        async for rows in iterate_batches(self._session, statement, order, ELEMENT_BATCH_SIZE):
            rows_with_step = [(loader.node_row(*columns), step_id) for *columns, step_id in rows]
            for node in await self._with_evidence(Kind.NODE, rows_with_step):
                yield node

    async def edges(self) -> AsyncIterator[ExportedElement]:
        statement = loader.select_edges(self._scope).add_columns(GraphEdge.step_id)
        order = loader.EDGES_IN_ORDER
        async for rows in iterate_batches(self._session, statement, order, ELEMENT_BATCH_SIZE):
            rows_with_step = [(loader.edge_row(*columns), step_id) for *columns, step_id in rows]
            for edge in await self._with_evidence(Kind.EDGE, rows_with_step):
                yield edge

    async def _with_evidence(
        self,
        kind: Kind,
        rows_with_step: "list[tuple[NodeRow, UUID | None]] | list[tuple[EdgeRow, UUID | None]]",
    ) -> list[ExportedElement]:
        ids = [row.id for row, _ in rows_with_step]
        evidence = await loader.load_evidence(self._session, self._scope, kind, ids)
        earlier_ids = await redirects.earlier_ids(self._session, ids)
        evidence_ids = [quoted.row.id for quotes in evidence.values() for quoted in quotes]
        steps = await self._steps_of(evidence_ids)
        doubts = await self._doubts_of([row.id for row, _ in rows_with_step if is_conclusion(row)])
        names = (
            await node_aliases.list_names_by_node(self._session, self._scope, ids)
            if kind is Kind.NODE
            else {}
        )
        return [
            ExportedElement(
                self._with_pending_changes(row, quotes),
                tuple(quotes),
                step_id,
                {quoted.row.id: steps[quoted.row.id] for quoted in quotes},
                tuple(earlier_ids.get(row.id, ())),
                names.get(row.id, {}),
                doubts.get(row.id, ()),
            )
            for row, step_id in rows_with_step
            for quotes in [evidence.get(row.id, [])]
        ]

    def _with_pending_changes(self, row: ThingRow, evidence: Sequence[QuotedEvidence]) -> ThingRow:
        """The row as it will be after pending propagations. A row whose seal does not match is returned unchanged."""
        agent_id, ids = self._scope.agent_id, [quoted.row.id for quoted in evidence]
        if not any(quoted.is_due for quoted in evidence) or row.seal != row.sealed(agent_id, ids):
            return row
        projected = project_properties(row.properties, [quoted.claim for quoted in evidence])
        updated = row.model_copy(update={"properties": projected})
        return updated.model_copy(update={"seal": updated.sealed(agent_id, ids)})

    async def _doubts_of(self, conclusions: list[UUID]) -> dict[UUID, list[ExportedDoubt]]:
        by_conclusion: dict[UUID, list[ExportedDoubt]] = {}
        if conclusions:
            is_open = Doubt.conclusion_id.in_(conclusions), Doubt.resolved_at.is_(None)
            statement = select(Doubt.conclusion_id, Doubt.element_id, Doubt.source_id, Doubt.since)
            for row in await self._session.execute(statement.where(*is_open).order_by(Doubt.id)):
                by_conclusion.setdefault(row[0], []).append(ExportedDoubt(*row[1:]))
        return by_conclusion

    async def _steps_of(self, evidence: list[UUID]) -> dict[UUID, UUID | None]:
        if not evidence:
            return {}
        rows = await self._session.execute(
            select(Evidence.id, Evidence.step_id).where(Evidence.id.in_(evidence))
        )
        return dict(rows.all())


def prompts_of(agent: Agent) -> dict[str, str]:
    """The agent's prompts by phase."""
    return {phase.value: prompt for phase, prompt in configuration.prompts_by_phase(agent).items()}


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
    """A doubt about a conclusion: the element it rests on and the page that caused the doubt."""

    element_id: UUID
    source_id: UUID
    since: datetime


class NodeLine(NodeRow):
    evidence: list[EvidenceRow]
    earlier_ids: tuple[UUID, ...] = ()
    """Ids of nodes merged into it, which conclusions may still cite."""
    names: dict[str, str] = Field(default_factory=dict)
    """All names by key; writes under any of them go to this node."""
    doubts: tuple[DoubtLine, ...] = ()
    """Doubts about a conclusion."""


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
    """Of all lines before this one including line ends, in hex."""


ContentLine = NodeTypeLine | EdgeTypeLine | SourceLine | NodeLine | EdgeLine
"""The lines between head and end."""
KINDS: Final[dict[str, type[ContentLine]]] = {
    "node_type": NodeTypeLine,
    "edge_type": EdgeTypeLine,
    "source": SourceLine,
    "node": NodeLine,
    "edge": EdgeLine,
}
"""By the key that each line starts with, in the order of the file: `{"node":{…}}`."""
END: Final = "end"


def format_line(kind: str, value: _Line | Row) -> bytes:
    return b'{"%s":%s}\n' % (kind.encode(), value.model_dump_json().encode())


async def export_json_lines(content: GraphContent) -> AsyncIterator[bytes]:
    """Yield the lines of the file."""
    digest = hashlib.sha256()
    counts = Counter[str]()
    async for line_counts, text in _lines(content):
        digest.update(text)
        counts.update(line_counts)
        yield text
    end = End(counts=Counts(**counts), sha256=digest.hexdigest())
    yield format_line(END, end)


async def _lines(content: GraphContent) -> AsyncIterator[tuple[dict[str, int], bytes]]:
    """Yield each line with its counts."""
    yield {}, (await _head(content)).model_dump_json().encode() + b"\n"
    types = await content.types()
    for node_type in types.nodes:
        yield {"node_types": 1}, format_line("node_type", NodeTypeLine(**_type_fields(node_type)))
    for edge_type in types.edges:
        yield {"edge_types": 1}, format_line("edge_type", EdgeTypeLine(**_type_fields(edge_type)))
    async for source in content.sources():
        yield {"sources": 1}, format_line("source", _source_line(source))
    async for node in content.nodes():
        yield {"nodes": 1, "evidence": len(node.evidence)}, format_line("node", _element_line(node))
    async for edge in content.edges():
        yield {"edges": 1, "evidence": len(edge.evidence)}, format_line("edge", _element_line(edge))


async def _head(content: GraphContent) -> Head:
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


def _type_fields(graph_type: NodeType | EdgeType) -> dict[str, Any]:
    return asdict(graph_type)


def _source_line(source: ExportedSource) -> SourceLine:
    return SourceLine.model_construct(**dict(source.row), text=source.text)


def _element_line(element: ExportedElement) -> NodeLine | EdgeLine:
    extra_fields: dict[str, Any] = {
        "evidence": [quoted.row for quoted in element.evidence],
        "earlier_ids": element.earlier_ids,
    }
    if isinstance(element.row, NodeRow):
        extra_fields["names"] = dict(element.names)
        extra_fields["doubts"] = tuple(DoubtLine(**asdict(quoted)) for quoted in element.doubts)
        return NodeLine.model_construct(**dict(element.row), **extra_fields)
    return EdgeLine.model_construct(**dict(element.row), **extra_fields)
