"""Import of an exported graph into a new agent."""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb
from pydantic import BaseModel, ValidationError

from shared.agents import agents, fields
from shared.agents import configuration as agent_configuration
from shared.database import ids
from shared.database.pagination import iterate_batches
from shared.database.statements import (
    Batch,
    BoundQuery,
    CompiledStatement,
    json_text,
    uuid_array,
)
from shared.database.transaction import Transaction
from shared.domains import DomainPreferences
from shared.enums import PROMPTED_PHASES, AgentStatus, Phase, PromptMaker
from shared.graph.conclusions import position_store
from shared.graph.conclusions.citation_index import cited_ids
from shared.graph.provenance.integrity import EvidenceRow
from shared.graph.provenance.page_reading import Span
from shared.graph.scope import IS_OWNED_SQL, GraphScope
from shared.graph.transfer import file_reader
from shared.graph.transfer.exporter import (
    DoubtLine,
    EdgeLine,
    Head,
    NodeLine,
    PositionLine,
    ProofLine,
    SourceLine,
)
from shared.graph.transfer.file_reader import (
    BadFileError,
    ExportedGraph,
    ImportedIds,
    ParsedLine,
    PreparedRows,
    RowPreparer,
    Rows,
    describe_first_error,
)
from shared.graph.validity import make_all_due
from shared.graph.verification import checks, loader
from shared.graph.verification.checks import QuotedEvidence
from shared.schemas.agents import PromptedPhase
from shared.urls import page_key


async def copy_rows(
    transaction: Transaction, table: str, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Write rows by COPY in the transaction; all rows have the same columns. Raises psycopg.Error.

    Only the owner of the tables can do this where row-level security applies.
    """
    if not rows:
        return
    columns = list(rows[0])
    statement = sql.SQL("copy {} ({}) from stdin").format(
        sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    async with transaction.connection.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            await copy.write_row([_plain(row[column]) for column in columns])


def _plain(value: Any) -> Any:
    return Jsonb(value) if isinstance(value, dict | list) else value


_CREATE_ID_MAP: Final = (
    # Between two statements a batch is read and checked, which can take longer than the timeout of idle transactions.
    CompiledStatement("set local idle_in_transaction_session_timeout = 0"),
    CompiledStatement(
        "create temporary table arrived (old uuid primary key, new uuid not null, retracted boolean not null) on commit drop"
    ),
    # A plan made while the table is small would later scan all of it.
    CompiledStatement("set local plan_cache_mode = force_custom_plan"),
)
_FIND_NEW_IDS: Final = CompiledStatement(
    "select old, new, retracted from arrived where old = any(cast(:old as uuid[]))"
)


class IdMap:
    """A temporary table of new ids by old ids; for sources also whether they are retracted."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def begin(self) -> None:
        """Create the table. Requires the right to create temporary tables, which services do not have."""
        batch = Batch()
        for statement in _CREATE_ID_MAP:
            batch.add(BoundQuery(statement, {}, lambda _: None))
        await batch.execute(self._transaction)

    async def add(self, pairs: Iterable[tuple[UUID, UUID, bool]]) -> None:
        """Add old id, new id, and whether it belongs to a retracted source. Raises psycopg.Error if an old id exists."""
        rows = [
            {"old": old, "new": new, "retracted": is_retracted} for old, new, is_retracted in pairs
        ]
        await copy_rows(self._transaction, "arrived", rows)

    async def find(self, old: Collection[UUID]) -> ImportedIds:
        if not old:
            return {}
        rows = await _FIND_NEW_IDS.tuples(self._transaction, {"old": uuid_array(old)})
        return {old_id: (new_id, is_retracted) for old_id, new_id, is_retracted in rows}

    async def new_ids(self, old: Collection[UUID]) -> dict[UUID, UUID]:
        """New ids of those that were imported."""
        return {old_id: new_id for old_id, (new_id, _) in (await self.find(old)).items()}


_PAGES: Final = CompiledStatement(
    "select id, url, published from sources where id = any(cast(:ids as uuid[]))"
)


async def load_quotes(
    transaction: Transaction,
    evidence: Sequence[EvidenceRow],
    imported: ImportedIds,
    now: datetime | None,
) -> list[QuotedEvidence]:
    """Evidence of the old agent with its quoted bytes, in the same order. `now` is that of the agent at the export."""
    sources = [imported.get(row.source_id, (None, False)) for row in evidence]
    spans = [
        (source_id, Span(row.first_byte, row.end_byte))
        for row, (source_id, _) in zip(evidence, sources, strict=True)
    ]
    ids = {source_id for source_id, _ in spans if source_id is not None}
    pages = {row.id: row for row in await _PAGES.rows(transaction, {"ids": uuid_array(ids)})}
    return [
        QuotedEvidence(
            *(row, quote, text_bytes, source_id is not None, is_retracted),
            url=pages[source_id].url if source_id else "",
            published=pages[source_id].published if source_id else None,
            now=now,
        )
        for row, (source_id, is_retracted), (quote, text_bytes) in zip(
            evidence, sources, await loader.load_spans(transaction, spans), strict=True
        )
    ]


_RETRACTED_PAGES: Final = CompiledStatement(f"""
select url, coalesce(retraction_reason, '') as reason, retracted_at, array_agg(id) as pages, not exists (
    select from sources as other
    where other.agent_id = :of_agent and other.url = sources.url and other.retracted_at is null) as is_whole
from sources where {IS_OWNED_SQL} and retracted_at is not null
group by url, retracted_at, retraction_reason
""")
_STORE_RETRACTIONS: Final = CompiledStatement("""
with given as materialized (
  select gen_random_uuid() as id, each.* from jsonb_to_recordset(cast(:rows as jsonb)) as each (
    url text, covers text, reason text, retracted_at timestamptz, pages uuid[])
),
stored as (
  insert into retractions (id, agent_id, url, covers, reason, created_at)
  select id, :of_agent, url, covers, reason, retracted_at from given
)
insert into retracted_sources (retraction_id, source_id, is_due)
select id, unnest(pages), false from given
""")


async def store_retractions(transaction: Transaction, scope: GraphScope) -> None:
    """Create one retraction per URL and time for the retracted pages; it needs no propagation.

    It covers what is read there later if no version of the page counts.
    """
    rows = await _RETRACTED_PAGES.rows(transaction, scope.sql_params)
    given = [
        {
            "url": row.url,
            "covers": page_key(row.url) if row.is_whole else None,
            "reason": row.reason,
            "retracted_at": row.retracted_at.isoformat(),
            "pages": [str(each) for each in row.pages],
        }
        for row in rows
    ]
    params = {"of_agent": scope.agent_id, "rows": json_text(given)}
    await _STORE_RETRACTIONS.run(transaction, params)


async def store_doubts(
    transaction: Transaction, id_map: IdMap, doubts: Sequence[tuple[UUID, DoubtLine]]
) -> None:
    """Store doubts by the new id of the conclusion.

    Those about edges that merges of earlier versions removed have no element and are skipped.
    """
    old_ids = {old_id for _, line in doubts for old_id in (line.element_id, line.source_id)}
    new_ids = await id_map.new_ids(old_ids)
    rows = Rows()
    for conclusion_id, line in doubts:
        element_id, source_id = new_ids.get(line.element_id), new_ids.get(line.source_id)
        if element_id and source_id:
            rows.append(
                {
                    "id": ids.doubt_id(conclusion_id, element_id, source_id),
                    "conclusion_id": conclusion_id,
                    "element_id": element_id,
                    "source_id": source_id,
                    "since": line.since,
                }
            )
    await copy_rows(transaction, "doubts", rows)


async def store_positions(
    transaction: Transaction,
    scope: GraphScope,
    id_map: IdMap,
    positions: Sequence[tuple[UUID, PositionLine]],
) -> None:
    """Store positions by the new id of the advice. Advice from before positions is entered as the product does it."""
    old_ids = {each for _, line in positions for each in (*line.subject, line.replaced_by) if each}
    new_ids = await id_map.new_ids(old_ids)
    rows = Rows()
    for advice_id, line in positions:
        columns = line.model_dump() | {
            "advice_id": advice_id,
            "agent_id": scope.agent_id,
            "subject": uuid_array(new_ids[each] for each in line.subject if each in new_ids),
            "replaced_by": line.replaced_by and new_ids.get(line.replaced_by),
        }
        rows.append(columns)
    await copy_rows(transaction, "positions", rows)
    await position_store.enter_missing(transaction, scope)


async def store_proofs(
    transaction: Transaction,
    scope: GraphScope,
    id_map: IdMap,
    proofs: Sequence[tuple[UUID, Sequence[ProofLine]]],
) -> None:
    """Store proofs by the new id of the conclusion. Raises BadFileError if a page is not in the file.

    A node or edge that merges have removed keeps its old id, which no other has.
    """
    lines = [line for _, of_one in proofs for line in of_one]
    new_ids = await id_map.new_ids(
        {each for line in lines for each in (line.element_id, line.source_id)}
    )
    if missing := [line.source_id for line in lines if line.source_id not in new_ids]:
        raise BadFileError(f"a proof quotes page {missing[0]}, which the file does not have")
    rows = Rows()
    for conclusion_id, of_one in proofs:
        for number, line in enumerate(of_one, 1):
            columns = line.model_dump() | {
                "conclusion_id": conclusion_id,
                "number": number,
                "agent_id": scope.agent_id,
                "element_id": new_ids.get(line.element_id, line.element_id),
                "source_id": new_ids[line.source_id],
                "value": None if line.property is None else Jsonb(line.value),
            }
            rows.append(columns)
    await copy_rows(transaction, "conclusion_proofs", rows)


_REMAP: Final = CompiledStatement(
    "update graph_nodes set properties = cast(:properties as jsonb), seal = :seal where id = :of_node"
)
MAX_BATCH_LINES: Final = 1_000
MAX_BATCH_BYTES: Final = 8 * 1024**2
"""Bytes of pages, and the weight of evidence, per batch; three batches are in memory at a time."""
_EVIDENCE_WEIGHT: Final = 2000


class GraphImport:
    """The import of one graph, in one transaction: a failed import leaves nothing behind."""

    def __init__(self, transaction: Transaction, scope: GraphScope, head: Head) -> None:
        """`scope` is the new agent; `head` is of the exported one."""
        self._transaction = transaction
        self._scope = scope
        self._agent_id = scope.agent_id
        self._preparer = RowPreparer(head.agent.id, scope)
        self._now = head.now
        self._id_map = IdMap(transaction)
        self._prepared: PreparedRows | None = None
        """Checked, and not written yet."""
        self._doubts: list[tuple[UUID, DoubtLine]] = []
        self._positions: list[tuple[UUID, PositionLine]] = []
        self._proofs: list[tuple[UUID, Sequence[ProofLine]]] = []

    async def run(self, contents: Iterable[ParsedLine]) -> None:
        """Import all lines.

        Raises BadFileError if a row does not match its seal or refers to something that does not exist.

        While PostgreSQL writes one batch, a thread checks the next one and reads the one after: both take about as
        long.
        """
        await self._id_map.begin()
        batches = _batches(contents)
        batch = await asyncio.to_thread(next, batches, None)
        while batch is not None:
            if self._prepared is not None and self._prepared.kind != batch[0].kind:
                await self._write()  # the batch refers to it
            batch = await self._check_batch(batch, batches)
        await self._write()
        await self._remap_citations()
        if self._now is None:
            await make_all_due(self._transaction, self._agent_id)
        await store_retractions(self._transaction, self._scope)
        await store_doubts(self._transaction, self._id_map, self._doubts)
        await store_positions(self._transaction, self._scope, self._id_map, self._positions)
        await store_proofs(self._transaction, self._scope, self._id_map, self._proofs)

    async def _check_batch(
        self, batch: list[ParsedLine], batches: Iterator[list[ParsedLine]]
    ) -> list[ParsedLine] | None:
        """Write the waiting batch while checking this one; returns the next batch."""
        elements = [line.value for line in batch if isinstance(line.value, NodeLine | EdgeLine)]
        evidence = [row for element in elements for row in element.evidence]
        edges = [element for element in elements if isinstance(element, EdgeLine)]
        imported = await self._id_map.find(
            {row.source_id for row in evidence}
            | {end for edge in edges for end in (edge.source_id, edge.target_id)}
        )
        quotes = iter(await load_quotes(self._transaction, evidence, imported, self._now))
        quoted = [
            [
                next(quotes)._replace(
                    refused=[
                        each.property for each in element.refusals if each.evidence_id == row.id
                    ]
                )
                for row in element.evidence
            ]
            for element in elements
        ]

        def prepare_and_read() -> tuple[PreparedRows, list[ParsedLine] | None]:
            return self._preparer.prepare(batch, imported, quoted), next(batches, None)

        # Wait for both: after a failure nothing may still use the connection or read the file.
        write_result, prepare_result = await asyncio.gather(
            self._write(), asyncio.to_thread(prepare_and_read), return_exceptions=True
        )
        # In the order of the file, so that its first error is raised.
        for outcome in (write_result, prepare_result):
            if isinstance(outcome, BaseException):
                raise outcome
        self._prepared, next_batch = cast(
            tuple[PreparedRows, list[ParsedLine] | None], prepare_result
        )
        return next_batch

    async def _write(self) -> None:
        """Write the prepared batch, if there is one."""
        prepared, self._prepared = self._prepared, None
        if prepared is None:
            return
        for table, rows in prepared.tables:
            await copy_rows(self._transaction, table, rows)
        await self._id_map.add(prepared.pairs)
        self._doubts += prepared.doubted
        self._positions += prepared.positions
        self._proofs += prepared.proofs

    async def _remap_citations(self) -> None:
        """Citations can refer to later lines, so they are remapped at the end."""
        statement = loader.select_conclusions(self._scope)
        order = loader.NODES.order
        async for rows in iterate_batches(self._transaction, statement, order, MAX_BATCH_LINES):
            nodes = [loader.NODES.row(row) for row in rows]
            cited = {cited_id for node in nodes for cited_id in checks.cited_by(node).ids()}
            new_ids = await self._id_map.new_ids(cited)
            remapping, citations = Batch(), Rows()
            for node in nodes:
                properties = file_reader.remap_citations(node.properties, new_ids)
                updated = node.model_copy(update={"properties": properties})
                seal = updated.seal and updated.sealed(self._agent_id, [])
                changed = {"of_node": node.id, "properties": json_text(properties), "seal": seal}
                remapping.add(BoundQuery(_REMAP, changed, lambda _: None))
                citations += [
                    {"conclusion_id": node.id, "cited_id": cited_id}
                    for cited_id in set(cited_ids(properties))
                ]
            await remapping.execute(self._transaction)
            await copy_rows(self._transaction, "citations", citations)


def _batches(contents: Iterable[ParsedLine]) -> Iterator[list[ParsedLine]]:
    """Group lines of one kind, limited by count and weight."""
    batch: list[ParsedLine] = []
    weight = 0
    for line in contents:
        is_full = len(batch) >= MAX_BATCH_LINES or weight >= MAX_BATCH_BYTES
        if batch and (is_full or batch[0].kind != line.kind):
            yield batch
            batch, weight = [], 0
        batch.append(line)
        weight += _weight(line)
    if batch:
        yield batch


def _weight(line: ParsedLine) -> int:
    match line.value:
        case SourceLine():
            return len(line.value.text)
        case NodeLine() | EdgeLine():
            return len(line.value.evidence) * _EVIDENCE_WEIGHT
        case _:
            return 0


_UNCONFIGURED = "it was exported before it had its prompts: `vigil agent configure` makes them"


class _Fields(BaseModel):
    """Validates the same fields as the API does."""

    mission: fields.Mission
    interval_seconds: fields.Interval
    models: fields.Models
    prompts: dict[PromptedPhase, fields.Prompt]
    preferred_domains: fields.Domains
    barred_domains: fields.Domains
    corpus: fields.Corpus | None = None
    archive_date: fields.ArchiveDate | None = None
    actions: fields.Actions | None = None


_CITE_ROOT: Final = CompiledStatement(
    "select set_config('vigil.cited_root', cast(:root as text), true)"
)
_SET_STATUS: Final = CompiledStatement(
    "update agents set status = :status, fault = :fault where id = :of_agent"
)


class ImportedAgent(NamedTuple):
    id: UUID
    name: str


async def import_graph(
    transaction: Transaction, owner_id: UUID, exported: ExportedGraph, name: str | None
) -> ImportedAgent:
    """Import a graph into a new agent, with the given name or the first free one after its old name.

    Runs in the transaction: if it raises, nothing is left behind. Raises BadFileError if the file is
    invalid, or the owner has an agent of the given name.
    """
    head = exported.head()
    try:
        if head.history is not None:
            # The first entry of the new journal names it.
            await _CITE_ROOT.run(transaction, {"root": head.history.root})
        agent = await _create_agent(transaction, owner_id, head, name)
        scope = GraphScope(owner_id, agent.id)
        await GraphImport(transaction, scope, head).run(exported.contents())
    except (
        psycopg.IntegrityError,
        psycopg.DataError,
        psycopg.errors.ProgramLimitExceeded,  # a value is too long for an index
    ) as error:
        raise BadFileError(f"its rows are inconsistent: {str(error).splitlines()[0]}") from error
    return agent


async def _create_agent(
    transaction: Transaction, owner_id: UUID, head: Head, name: str | None
) -> ImportedAgent:
    try:
        agent_fields = _Fields.model_validate(head.agent, from_attributes=True)
    except ValidationError as error:
        raise BadFileError(f"line 1: agent.{describe_first_error(error)}") from error
    domains = DomainPreferences(agent_fields.preferred_domains, agent_fields.barred_domains)
    if (contradiction := domains.contradiction()) is not None:
        raise BadFileError(f"line 1: agent.barred_domains: {contradiction}")
    try:
        checked_name = agents.validate_name(name or head.agent.name)
    except ValueError as error:
        raise BadFileError(f"line 1: agent.name: {error}: set another name with --name") from error
    free_name = await agents.find_free_name(transaction, owner_id, checked_name)
    if name is not None and free_name != checked_name:
        raise BadFileError(
            f"an agent named {checked_name!r} already exists: choose another name with --name"
        )
    agent = await agents.create_agent(
        transaction,
        owner_id,
        name=free_name,
        mission=agent_fields.mission,
        interval_seconds=agent_fields.interval_seconds,
        active=False,
        models={phase.value: model for phase, model in agent_fields.models.items()},
        preferred_domains=agent_fields.preferred_domains,
        barred_domains=agent_fields.barred_domains,
        corpus=agent_fields.corpus,
        archive_date=agent_fields.archive_date,
        **({} if agent_fields.actions is None else {"actions": agent_fields.actions}),
    )
    prompts = {Phase(phase): prompt for phase, prompt in agent_fields.prompts.items()}
    await agent_configuration.store_prompts(transaction, agent, prompts, PromptMaker.OWNER)
    is_ready = len(prompts) == len(PROMPTED_PHASES)
    outcome = {
        "of_agent": agent.id,
        "status": AgentStatus.READY if is_ready else AgentStatus.FAILED,
        "fault": None if is_ready else _UNCONFIGURED,
    }
    await _SET_STATUS.run(transaction, outcome)
    return ImportedAgent(agent.id, agent.name)
