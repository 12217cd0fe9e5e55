"""Export of a graph as JSON Lines, in batches of constant memory."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime
from typing import Any, Final, Generic, Literal, TypeVar, cast
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import select

from shared.agents import agents, configuration
from shared.database.pagination import Keyset, iterate_batches
from shared.database.statements import CompiledStatement, uuid_array
from shared.database.tables import Agent, Doubt, GraphJournal, Position, Source, Step
from shared.database.transaction import Transaction
from shared.graph.conclusions.citations import Kind
from shared.graph.entity_resolution import aliases as node_aliases
from shared.graph.entity_resolution import redirects
from shared.graph.provenance.beside import Column, beside_query
from shared.graph.provenance.claims import project_properties
from shared.graph.provenance.integrity import (
    EdgeRow,
    EvidenceRow,
    NodeRow,
    Row,
    SourceRow,
    ThingRow,
)
from shared.graph.provenance.verdicts import IS_REFUSING_SQL, READ_VALUES_SQL
from shared.graph.retraction.doubts import pending_doubts
from shared.graph.scope import OWNED_AGENT_ID_SQL, GraphScope
from shared.graph.types import EdgeType, NodeType, list_edge_types, list_node_types
from shared.graph.verification import loader
from shared.graph.verification.checks import QuotedEvidence, is_conclusion, now_of
from shared.graph.verification.loader import RowLoader
from shared.graph.verification.proofs import load_rows as load_proof_rows
from shared.workflow.agent_clock import AgentClock, agent_clock

SOURCE_BATCH_SIZE: Final = 50
"""Sources include their text."""
ELEMENT_BATCH_SIZE: Final = 500
"""Nodes or edges with their evidence."""

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
    preferred_domains: list[str] = Field(default_factory=list)
    barred_domains: list[str] = Field(default_factory=list)
    corpus: str | None = None
    archive_date: date | None = None
    actions: dict[str, str] | None = None


class HistoryLine(_Line):
    """The newest entry of the graph's journal: `vigil verify --since` finds it where the graph was exported."""

    seq: int
    root: str = Field(pattern="^[0-9a-f]{64}$")
    signature: str | None = Field(None, pattern="^[0-9a-f]{128}$")


class Head(_Line):
    format: Literal["vigil-graph"] = FORMAT
    version: Literal[1] = VERSION
    exported_at: datetime
    now: datetime | None = None
    """The time of the agent; None in exports of releases in which validity did not count."""
    agent: AgentLine
    history: HistoryLine | None = None
    """None if the graph was never written."""


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


class PositionLine(_Line):
    """The state of a piece of advice: see `shared.database.tables.Position`."""

    subject: list[UUID]
    confidence: float | None = Field(None, ge=0, le=1)
    horizon: date | None = None
    stated_at: datetime
    confirmations: int = Field(0, ge=0, le=2**31 - 1)
    ended_at: datetime | None = None
    replaced_by: UUID | None = None
    reason: str | None = None


class ProofLine(_Line):
    """A row of the proof of a conclusion: see `shared.database.tables.ConclusionProof`."""

    sentence: int = Field(ge=0, le=2**15 - 1)
    stated: str
    kind: Kind
    element_id: UUID
    type: str
    name: str
    property: str | None
    value: Any
    source_id: UUID
    first_byte: int
    end_byte: int


class RefusalLine(_Line):
    """A verdict because of which a value of evidence does not count: see `shared.database.tables.EntailmentVerdict`."""

    evidence_id: UUID
    property: str
    """Empty: that the node or edge exists."""
    verdict: Literal["contradicted", "not_stated"]
    reason: str
    model: str
    prompt_version: int | None = Field(None, ge=0, le=2**15 - 1)
    call_id: UUID
    step_id: UUID
    created_at: datetime


class NodeLine(NodeRow):
    evidence: list[EvidenceRow]
    refusals: tuple[RefusalLine, ...] = ()
    """Of its evidence."""
    earlier_ids: tuple[UUID, ...] = ()
    """Ids of nodes merged into it, which conclusions may still cite."""
    names: dict[str, str] = Field(default_factory=dict)
    """All names by key; writes under any of them go to this node."""
    doubts: tuple[DoubtLine, ...] = ()
    """Doubts about a conclusion."""
    position: PositionLine | None = None
    """Of advice."""
    proof: tuple[ProofLine, ...] = Field((), max_length=2**15 - 1)
    """Of a conclusion, in its order."""
    beside: str = ""
    """Contested, upcoming and ended values. For readers of the file: an import computes them from the evidence."""


class EdgeLine(EdgeRow):
    evidence: list[EvidenceRow]
    refusals: tuple[RefusalLine, ...] = ()
    """Of its evidence."""
    earlier_ids: tuple[UUID, ...] = ()
    beside: str = ""
    """As in NodeLine."""


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


def count_line(counts: Counter[str], kind: str, line: ContentLine) -> None:
    """Add the line to `counts`, whose keys are the fields of `Counts`."""
    counts[f"{kind}s"] += 1
    if isinstance(line, NodeLine | EdgeLine):
        counts["evidence"] += len(line.evidence)


def format_line(kind: str, value: _Line | Row) -> bytes:
    return b'{"%s":%s}\n' % (kind.encode(), value.model_dump_json().encode())


_REFUSALS: Final = CompiledStatement(f"""
select evidence_id, name as property, verdict, reason, model, prompt_version, call_id, read.step_id, read.created_at
from evidence cross join lateral ({READ_VALUES_SQL}) as read
where evidence.id = any(cast(:ids as uuid[])) and (evidence.agent_id = {OWNED_AGENT_ID_SQL}) is true and {IS_REFUSING_SQL}
order by evidence_id, name
""")
_STEPS_IN_ORDER: Final = Keyset("all steps", (Step.id,), descending=False)
_SOURCE_COLUMNS: Final = loader.row_columns(SourceLine, Source)
L = TypeVar("L", bound=Row)


@dataclass(frozen=True)
class Exported(Generic[L]):
    """A line of the file, and what other formats need besides."""

    line: L
    step_id: UUID | None
    """The step that wrote it."""
    evidence: Sequence[QuotedEvidence] = ()
    """All of it, of a node or edge."""


class GraphContent:
    """The graph of one agent. Use it in a repeatable read transaction, so that all of it is from one moment."""

    def __init__(self, transaction: Transaction, scope: GraphScope) -> None:
        self._session = transaction
        self._scope = scope
        self._pending_doubts: list[tuple[UUID, UUID, UUID, datetime]] | None = None

    async def agent(self) -> Agent:
        """Raises TransientError if the agent was deleted."""
        return await agents.get_agent(self._session, self._scope.agent_id)

    async def clock(self) -> AgentClock:
        return await agent_clock(self._scope.agent_id).execute(self._session)

    async def history(self) -> HistoryLine | None:
        statement = (
            select(GraphJournal.seq, GraphJournal.hash, GraphJournal.signature)
            .where(GraphJournal.agent_id == self._scope.owned_agent_id())
            .order_by(GraphJournal.seq.desc())
            .limit(1)
        )
        for seq, root, signature in await self._session.execute(statement):
            return HistoryLine(seq=seq, root=root.hex(), signature=signature and signature.hex())
        return None

    async def types(self) -> tuple[list[NodeType], list[EdgeType]]:
        return (
            await list_node_types(self._session, self._scope),
            await list_edge_types(self._session, self._scope),
        )

    async def steps(self) -> AsyncIterator[tuple[UUID, str, datetime | None, datetime | None]]:
        """Id, kind, start and end of each step."""
        statement = select(Step.id, Step.kind, Step.started_at, Step.ended_at).where(
            Step.agent_id == self._scope.owned_agent_id()
        )
        async for rows in iterate_batches(
            self._session, statement, _STEPS_IN_ORDER, ELEMENT_BATCH_SIZE
        ):
            for row in rows:
                yield row

    async def sources(self) -> AsyncIterator[Exported[SourceLine]]:
        statement = select(*_SOURCE_COLUMNS, Source.step_id).where(
            Source.agent_id == self._scope.owned_agent_id()
        )
        order = loader.SOURCES.order
        async for rows in iterate_batches(self._session, statement, order, SOURCE_BATCH_SIZE):
            for *columns, step_id in rows:
                yield Exported(loader.build_row(SourceLine, columns), step_id)

    def nodes(self) -> AsyncIterator[Exported[NodeLine]]:
        """Nodes, including conclusions."""
        return self._elements(NodeLine, loader.NODES, Kind.NODE)

    def edges(self) -> AsyncIterator[Exported[EdgeLine]]:
        return self._elements(EdgeLine, loader.EDGES, Kind.EDGE)

    async def _elements(
        self, line_type: type[L], rows_of: RowLoader[NodeRow] | RowLoader[EdgeRow], kind: Kind
    ) -> AsyncIterator[Exported[L]]:
        statement = rows_of.select(self._scope).add_columns(rows_of.table.step_id)
        async for batch in iterate_batches(
            self._session, statement, rows_of.order, ELEMENT_BATCH_SIZE
        ):
            rows = [(rows_of.row(columns), step_id) for *columns, step_id in batch]
            ids = [row.id for row, _ in rows]
            evidence = await loader.load_evidence(self._session, self._scope, kind, ids)
            refusals = await self._refusals_of(evidence)
            column: Column = "node_id" if kind is Kind.NODE else "edge_id"
            beside = await beside_query(self._scope, column, ids).execute(self._session)
            earlier_ids = await redirects.earlier_ids(self._session, ids)
            names = (
                await node_aliases.list_names_by_node(self._session, self._scope, ids)
                if kind is Kind.NODE
                else {}
            )
            conclusions = [row.id for row, _ in rows if is_conclusion(row)]
            doubts = await self._doubts_of(conclusions) if conclusions else {}
            positions = await self._positions_of(conclusions) if conclusions else {}
            proofs = await self._proofs_of(conclusions) if conclusions else {}
            for row, step_id in rows:
                quotes = evidence.get(row.id, [])
                fields: dict[str, Any] = {
                    **dict(self._with_pending_changes(row, quotes)),
                    "evidence": [quoted.row for quoted in quotes],
                    "refusals": tuple(refusals.get(row.id, ())),
                    "earlier_ids": tuple(earlier_ids.get(row.id, ())),
                    "beside": beside.get(row.id, ""),
                }
                if kind is Kind.NODE:
                    fields["names"] = names.get(row.id, {})
                    fields["doubts"] = tuple(doubts.get(row.id, ()))
                    fields["position"] = positions.get(row.id)
                    fields["proof"] = proofs.get(row.id, ())
                line = cast(L, line_type.model_construct(**fields))
                yield Exported(line, step_id, quotes)

    def _with_pending_changes(self, row: ThingRow, evidence: Sequence[QuotedEvidence]) -> ThingRow:
        """The row as it will be after pending propagations. A row whose seal does not match is returned unchanged."""
        agent_id, ids = self._scope.agent_id, [quoted.row.id for quoted in evidence]
        if not any(quoted.is_due for quoted in evidence) or row.seal != row.sealed(agent_id, ids):
            return row
        claims = [quoted.claim for quoted in evidence]
        projected = project_properties(row.properties, claims, now_of(evidence))
        updated = row.model_copy(update={"properties": projected})
        return updated.model_copy(update={"seal": updated.sealed(agent_id, ids)})

    async def _refusals_of(
        self, evidence: Mapping[UUID, Sequence[QuotedEvidence]]
    ) -> dict[UUID, list[RefusalLine]]:
        """By node or edge."""
        element_of = {
            quoted.row.id: element_id
            for element_id, quotes in evidence.items()
            for quoted in quotes
            if quoted.refused
        }
        lines: defaultdict[UUID, list[RefusalLine]] = defaultdict(list)
        params = {**self._scope.sql_params, "ids": uuid_array(element_of)}
        for row in await _REFUSALS.rows(self._session, params) if element_of else ():
            lines[element_of[row.evidence_id]].append(RefusalLine(**row._asdict()))
        return lines

    async def _positions_of(self, conclusions: list[UUID]) -> dict[UUID, PositionLine]:
        columns = [getattr(Position, name) for name in PositionLine.model_fields]
        statement = select(Position.advice_id, *columns).where(Position.advice_id.in_(conclusions))
        return {
            advice_id: PositionLine(**dict(zip(PositionLine.model_fields, values, strict=True)))
            for advice_id, *values in await self._session.execute(statement)
        }

    async def _proofs_of(self, conclusions: list[UUID]) -> dict[UUID, tuple[ProofLine, ...]]:
        rows = await load_proof_rows(self._session, self._scope, conclusions)
        return {
            conclusion_id: tuple(ProofLine(**asdict(row)) for _, row in of_one)
            for conclusion_id, of_one in rows.items()
        }

    async def _doubts_of(self, conclusions: list[UUID]) -> dict[UUID, list[DoubtLine]]:
        """The open doubts of these conclusions as they will be after pending propagations."""
        statement = (
            select(Doubt.conclusion_id, Doubt.element_id, Doubt.source_id, Doubt.since)
            .join(Source, Source.id == Doubt.source_id)
            .where(
                Doubt.conclusion_id.in_(conclusions),
                Doubt.resolved_at.is_(None),
                # The others are closed when the restoration of their source is propagated.
                Source.retracted_at.is_not(None),
            )
            .order_by(Doubt.id)
        )
        if self._pending_doubts is None:
            self._pending_doubts = await pending_doubts(self._session, self._scope)
        rows = (await self._session.execute(statement)).all()
        opened = {tuple(row[:3]) for row in rows}
        by_conclusion: defaultdict[UUID, list[DoubtLine]] = defaultdict(list)
        for conclusion_id, element_id, source_id, since in (
            *rows,
            *(row for row in self._pending_doubts if row[:3] not in opened),
        ):
            line = DoubtLine(element_id=element_id, source_id=source_id, since=since)
            by_conclusion[conclusion_id].append(line)
        return by_conclusion


async def export_json_lines(content: GraphContent) -> AsyncIterator[bytes]:
    """Yield the lines of the file."""
    text = (await _head(content)).model_dump_json().encode() + b"\n"
    digest = hashlib.sha256(text)
    yield text
    counts = Counter[str]()
    async for kind, line in _lines(content):
        count_line(counts, kind, line)
        text = format_line(kind, line)
        digest.update(text)
        yield text
    yield format_line(END, End(counts=Counts(**counts), sha256=digest.hexdigest()))


async def _head(content: GraphContent) -> Head:
    agent = await content.agent()
    prompts = configuration.prompts_by_phase(agent)
    clock = await content.clock()
    return Head(
        exported_at=clock.real,
        now=clock.now,
        agent=AgentLine(
            id=agent.id,
            name=agent.name,
            mission=agent.mission,
            interval_seconds=agent.interval_seconds,
            models=agent.models,
            preferred_domains=agent.preferred_domains,
            barred_domains=agent.barred_domains,
            corpus=agent.corpus,
            archive_date=agent.archive_date,
            actions=agent.actions,
            prompts={phase.value: prompt for phase, prompt in prompts.items()},
        ),
        history=await content.history(),
    )


async def _lines(content: GraphContent) -> AsyncIterator[tuple[str, ContentLine]]:
    node_types, edge_types = await content.types()
    for node_type in node_types:
        yield "node_type", NodeTypeLine(**asdict(node_type))
    for edge_type in edge_types:
        yield "edge_type", EdgeTypeLine(**asdict(edge_type))
    async for source in content.sources():
        yield "source", source.line
    async for node in content.nodes():
        yield "node", node.line
    async for edge in content.edges():
        yield "edge", edge.line
