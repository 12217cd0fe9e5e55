"""Import of an exported graph into a new agent."""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast
from uuid import UUID, uuid4

import psycopg
from psycopg import AsyncConnection, sql
from psycopg.types.json import Jsonb
from pydantic import BaseModel, ValidationError
from sqlalchemy import func, select, text, update
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from shared.agents import agents, fields
from shared.agents import configuration as agent_configuration
from shared.database import ids
from shared.database.pagination import slices_of
from shared.database.tables import (
    Agent,
    Citation,
    Doubt,
    GraphEdgeType,
    GraphNode,
    GraphNodeType,
    RetractedSource,
    Retraction,
    Source,
)
from shared.enums import PROMPTED, AgentStatus, Phase, PromptMaker
from shared.graph.conclusions.citation_index import cited_in
from shared.graph.provenance.integrity import EvidenceRow
from shared.graph.scope import Scope
from shared.graph.transfer import file_reader
from shared.graph.transfer.exporter import DoubtLine, EdgeLine, Head, NodeLine, SourceLine
from shared.graph.transfer.file_reader import (
    BadFileError,
    Checker,
    ExportedGraph,
    Known,
    Read,
    Ready,
    Rows,
    Sources,
    first_fault,
)
from shared.graph.types import RESERVED_TYPES
from shared.graph.verification import checks, loader
from shared.graph.verification.checks import Spanned
from shared.schemas.agents import PromptedPhase


async def copy_rows(session: AsyncSession, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """In the session's transaction; all rows have the same columns. Raises psycopg.Error where PostgreSQL refuses.

    Only the tables' owner can, where row-level security bounds the others.
    """
    if not rows:
        return
    connection = await (await session.connection()).get_raw_connection()
    driver = connection.driver_connection
    assert isinstance(driver, AsyncConnection)
    columns = list(rows[0])
    statement = sql.SQL("copy {} ({}) from stdin").format(
        sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    async with driver.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            await copy.write_row([_plain(row[column]) for column in columns])


def _plain(value: Any) -> Any:
    return Jsonb(value) if isinstance(value, dict | list) else value


_TABLE = "arrived"


class Arrived:
    """By old id the new one; of sources also whether they are retracted."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def begin(self) -> None:
        """Needs the right to make temporary tables, which the tables' owner has and no actor."""
        # Between two statements a batch is read and checked, which on a busy machine takes longer than a worker may rest.
        await self._session.execute(text("set local idle_in_transaction_session_timeout = 0"))
        await self._session.execute(
            text(
                f"create temporary table {_TABLE} (old uuid primary key, new uuid not null, retracted boolean not null)"
                " on commit drop"
            )
        )
        # A plan made while the table was small would read all of it once it is large.
        await self._session.execute(text("set local plan_cache_mode = force_custom_plan"))

    async def add(self, pairs: Iterable[tuple[UUID, UUID, bool]]) -> None:
        """Old ids, new ones, and whether what has them is a retracted page.

        Raises IntegrityError where one of the old ids is there already.
        """
        rows = [{"old": old, "new": new, "retracted": flag} for old, new, flag in pairs]
        await copy_rows(self._session, _TABLE, rows)

    async def new_ids(self, old: Collection[UUID]) -> dict[UUID, UUID]:
        """Of those that have arrived."""
        return {each: new for each, (new, _) in (await self._found(old)).items()}

    async def sources(self, old: Collection[UUID]) -> dict[UUID, tuple[UUID, bool]]:
        """With whether it is retracted."""
        return await self._found(old)

    async def _found(self, old: Collection[UUID]) -> dict[UUID, tuple[UUID, bool]]:
        if not old:
            return {}
        rows = await self._session.execute(
            text(f"select old, new, retracted from {_TABLE} where old = any(:old)"),
            {"old": list(old)},
        )
        return {each: (new, retracted) for each, new, retracted in rows}


_QUOTES = text(
    "select substring(convert_to(sources.text, 'UTF8'),"
    " least(first_byte, octet_length(sources.text)) + 1,"
    " least(end_byte - first_byte, octet_length(sources.text))), octet_length(sources.text)"
    " from unnest(cast(:sources as uuid[]), cast(:first as int[]), cast(:end as int[]))"
    " with ordinality as wanted (source_id, first_byte, end_byte, place)"
    " left join sources on sources.id = source_id order by place"
)


async def spanned(
    session: AsyncSession, evidence: Sequence[EvidenceRow], sources: Sources
) -> list[Spanned]:
    """Of evidence as it was, in its order."""
    if not evidence:
        return []
    new = [sources[each.source_id][0] if each.source_id in sources else None for each in evidence]
    rows = await session.execute(
        _QUOTES,
        {
            "sources": new,
            "first": [each.first_byte for each in evidence],
            "end": [each.end_byte for each in evidence],
        },
    )
    return [
        Spanned(
            row,
            bytes(quote or b""),
            text_bytes or 0,
            has_source=row.source_id in sources,
            is_retracted=row.source_id in sources and sources[row.source_id][1],
        )
        for row, (quote, text_bytes) in zip(evidence, rows, strict=True)
    ]


Doubted = Sequence[tuple[UUID, DoubtLine]]
"""By the new id of the conclusion, with the old ones of what it rests on."""


async def keep_retractions(session: AsyncSession, scope: Scope) -> None:
    """Of all pages that have arrived retracted, gone through already; those of one address and moment are one."""
    rows = await session.execute(
        select(
            Source.url,
            Source.retracted_at,
            func.coalesce(Source.retracted_because, ""),
            func.array_agg(aggregate_order_by(Source.id, Source.id)),
        )
        .where(Source.agent_id == scope.agent(), Source.retracted_at.is_not(None))
        .group_by(Source.url, Source.retracted_at, Source.retracted_because)
    )
    for url, moment, because, sources in rows.all():
        assert moment is not None
        made = _retraction(scope, url, moment, because)
        session.add(made)
        await session.flush()
        of_it = {"retraction_id": made.id, "is_due": False, "through": None}
        session.add_all(RetractedSource(source_id=each, **of_it) for each in sources)
    await session.flush()


def _retraction(scope: Scope, url: str, moment: datetime, because: str) -> Retraction:
    return Retraction(
        id=uuid4(), agent_id=scope.agent_id, url=url, because=because, created_at=moment
    )


async def keep_doubts(session: AsyncSession, arrived: Arrived, doubted: Doubted) -> None:
    """But of what is not there: an edge between two nodes goes when they are made one, and doubts of it do not."""
    told = [each for _, each in doubted]
    old = {each.thing_id for each in told} | {each.source_id for each in told}
    new_ids = await arrived.new_ids(old)
    rows = [
        _row(conclusion, each, new_ids)
        for conclusion, each in doubted
        if {each.thing_id, each.source_id} <= new_ids.keys()
    ]
    await copy_rows(session, Doubt.__tablename__, rows)


def _row(conclusion: UUID, told: DoubtLine, new_ids: Mapping[UUID, UUID]) -> dict[str, Any]:
    thing, source = new_ids[told.thing_id], new_ids[told.source_id]
    return {
        "id": ids.doubt_id(conclusion, thing, source),
        "conclusion_id": conclusion,
        "thing_id": thing,
        "source_id": source,
        "since": told.since,
    }


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
        wanted = loader.all_nodes(self._scope).where(GraphNode.type.in_(sorted(RESERVED_TYPES)))
        order = loader.NODES_IN_ORDER
        async for rows in slices_of(self._session, wanted, order, LINES_AT_ONCE):
            nodes = [loader.node_row(*row) for row in rows]
            cited = {each for node in nodes for each in checks.cited_by(node).ids()}
            new_ids = await self._arrived.new_ids(cited)
            changed, citations = Rows(), Rows()
            for node in nodes:
                told = node.model_copy(
                    update={"properties": file_reader.recited(node.properties, new_ids)}
                )
                seal = told.seal and told.sealed(self._agent_id, [])
                changed.append({"id": node.id, "properties": told.properties, "seal": seal})
                cited_now = set(cited_in(told.properties))
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


_UNCONFIGURED = "it was exported before it had its prompts: `vigil agent configure` makes them"


class _Fields(BaseModel):
    """What the API checks as well when a person writes it."""

    mission: fields.Mission
    interval_seconds: fields.Interval
    models: fields.Models
    prompts: dict[PromptedPhase, fields.Prompt]


async def import_graph(
    session: AsyncSession, owner_id: UUID, exported: ExportedGraph, name: str | None
) -> Agent:
    """The new agent, of that name or of the first free one after the name it had.

    All of it is the session's transaction: where it raises, nothing is left behind. Raises BadFileError where the file
    cannot be trusted, or the owner has an agent of the name that was asked for.
    """
    head = exported.head()
    try:
        agent = await _make(session, owner_id, head, name)
        scope = Scope(owner_id, agent.id)
        await Arrival(session, scope, head.agent.id).take(exported.contents())
    except (psycopg.IntegrityError, psycopg.DataError, IntegrityError, DataError) as error:
        raise BadFileError(f"its rows do not go together: {_said(error)}") from error
    return agent


async def _make(session: AsyncSession, owner_id: UUID, head: Head, name: str | None) -> Agent:
    told = _checked(head)
    try:
        wanted = agents.checked(name or head.agent.name)
    except ValueError as error:
        raise BadFileError(f"line 1: agent.name: {error}: give it another by --name") from error
    free = await agents.free(session, owner_id, wanted)
    if name is not None and free != wanted:
        raise BadFileError(f"there is an agent of the name {wanted!r} already: give it another")
    agent = await agents.create(
        session,
        owner_id,
        name=free,
        mission=told.mission,
        interval_seconds=told.interval_seconds,
    )
    agent.active = False
    agent.models = {phase.value: model for phase, model in told.models.items()}
    given = {Phase(phase): prompt for phase, prompt in told.prompts.items()}
    await agent_configuration.write(session, agent, given, PromptMaker.OWNER)
    is_ready = len(given) == len(PROMPTED)
    agent.status = AgentStatus.READY if is_ready else AgentStatus.FAILED
    agent.fault = None if is_ready else _UNCONFIGURED
    await session.flush()
    return agent


def _checked(head: Head) -> _Fields:
    told = head.agent
    try:
        return _Fields.model_validate(
            {
                "mission": told.mission,
                "interval_seconds": told.interval_seconds,
                "models": told.models,
                "prompts": told.prompts,
            }
        )
    except ValidationError as error:
        raise BadFileError(f"line 1: agent.{first_fault(error)}") from error


def _said(error: psycopg.Error | DBAPIError) -> str:
    return str(error.orig if isinstance(error, DBAPIError) else error).splitlines()[0]
