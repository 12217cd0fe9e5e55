"""Embedding backlog: nodes whose embedding is missing or out of date.

A step embeds the nodes that it wrote. One step per iteration then sweeps through all other nodes in the order of
their last update, starting where the last sweep ended. So no node is missed, whatever failed, and the cost per step
is limited.

A resumed step requests the same batches in the same order, without those already stored. Only if others have written
these nodes meanwhile, one further call of at most MAX_BATCH_TEXTS texts is made beside the one in flight.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, TypeVar
from uuid import UUID

from shared.billing.embedding_cache import EmbeddingRequest, Vector
from shared.database import pgvector
from shared.database.locks import shared_write_lock
from shared.database.statements import CompiledStatement, Row, json_text, uuid_array
from shared.database.transaction import Transaction
from shared.graph.retrieval.node_search import EmbeddingSearch
from shared.graph.scope import OWNED_AGENT_ID_SQL, GraphScope
from shared.graph.validation import one_line
from shared.tools import Json

MAX_TEXT_CHARS: Final = 600
"""Some 150 tokens: what distinguishes a node comes first."""
_MAX_PROPERTY_CHARS: Final = 120
"""Of a property other than the summary."""


def embedding_text(type_name: str, name: str, properties: Json) -> str:
    """One line of name, type and summary, followed by the short properties."""
    summary = properties.get("summary")
    parts = [
        name,
        type_name,
        summary if isinstance(summary, str) else "",
        *_property_texts(properties),
    ]
    return one_line("; ".join(part for part in parts if part))[:MAX_TEXT_CHARS].rstrip()


def _property_texts(properties: Json) -> Iterator[str]:
    for name, value in sorted(properties.items()):
        value_text = _value_text(value)
        if name != "summary" and 0 < len(value_text) <= _MAX_PROPERTY_CHARS:
            yield f"{name.replace('_', ' ')}: {value_text}"


def _value_text(value: Any) -> str:
    """Empty for values that have no short text form."""
    match value:
        case bool():
            return "yes" if value else "no"
        case str():
            return value
        case int() | float():
            return str(value)
        case list():
            return ", ".join(item for item in value if isinstance(item, str))
        case _:
            return ""


MAX_STEP_NODES: Final = 128
"""Of the step's own nodes; the sweep embeds the rest."""
MAX_SWEEP_NODES: Final = 128
"""Other nodes that one step examines."""
MAX_BATCH_TEXTS: Final = 32
"""Texts per call, the most that one failure or refusal affects."""
LATE_COMMIT_SECONDS: Final = 600
"""A row may become visible this long after its timestamp, so the last part is always examined again."""
_BEGINNING: Final = (datetime(1970, 1, 1, tzinfo=UTC), UUID(int=0))

# A fixed order prevents deadlocks between steps that store the same vectors.
_STORE: Final = CompiledStatement("""
insert into node_embeddings (node_id, agent_id, model, text_sha256, embedding)
select node_id, :agent, :model, text_sha256, embedding
from jsonb_to_recordset(cast(:rows as jsonb)) as row (node_id uuid, text_sha256 bytea, embedding real[])
where exists (select from graph_nodes where id = node_id) order by node_id
on conflict (node_id) do update
set model = excluded.model, text_sha256 = excluded.text_sha256, embedding = excluded.embedding,
  updated_at = clock_timestamp()
""")
_STORE_POSITION: Final = CompiledStatement("""
insert into embedding_progress as kept (agent_id, model, through_at, through_id)
values (:agent, :model, :through_at, :through_id)
on conflict (agent_id) do update
set model = excluded.model, through_at = excluded.through_at, through_id = excluded.through_id
where exists (
  select from jsonb_to_recordset(cast(:known as jsonb)) as known (model text, at timestamptz, id uuid)
  where known.model = kept.model and known.at = kept.through_at and known.id = kept.through_id)
""")
_POSITION: Final = CompiledStatement(
    "select model, through_at, through_id from embedding_progress where agent_id = :agent"
)
_REWIND: Final = CompiledStatement(f"""
update embedding_progress
set through_at = least(through_at, (
  select min(updated_at) from graph_nodes where id = any(cast(:ids as uuid[])))) - interval '1 microsecond'
where agent_id = {OWNED_AGENT_ID_SQL}
""")

T = TypeVar("T")
SweepPosition = tuple[datetime, UUID]


@dataclass(frozen=True)
class _Node:
    id: UUID
    text: str
    position: SweepPosition | None
    """Position in the sweep; None if older rows may still become visible."""

    @property
    def sha256(self) -> bytes:
        return hashlib.sha256(self.text.encode()).digest()


@dataclass(frozen=True)
class EmbeddingBatch:
    """Nodes that are embedded by one call."""

    scope: GraphScope
    model: str
    nodes: Sequence[_Node]

    @property
    def request(self) -> EmbeddingRequest:
        return EmbeddingRequest(self.model, tuple(node.text for node in self.nodes))

    @property
    def halves(self) -> Sequence["EmbeddingBatch"]:
        """Both halves in order; empty for a single node."""
        middle = len(self.nodes) // 2
        parts = (self.nodes[:middle], self.nodes[middle:]) if middle else ()
        return [replace(self, nodes=part) for part in parts]

    async def store(self, transaction: Transaction, vectors: Sequence[Vector]) -> None:
        """Store the vectors, one per node. Nodes that were deleted meanwhile are skipped."""
        # So that no node is merged away between this check and the write.
        await shared_write_lock(transaction, self.scope.agent_id)
        rows = [
            {"node_id": node.id, "text_sha256": node.sha256, "embedding": list(vector)}
            for node, vector in zip(self.nodes, vectors, strict=True)
        ]
        params = {"agent": self.scope.agent_id, "model": self.model, "rows": json_text(rows)}
        await _STORE.run(transaction, params)


@dataclass
class Sweep:
    """One pass through the agent's nodes, starting where the last one ended."""

    scope: GraphScope
    model: str
    batches: Sequence[EmbeddingBatch]
    end_position: SweepPosition | None
    """Where it ends; None for nowhere."""
    known_positions: list[tuple[str, *SweepPosition]]
    """The position before it and those that it has stored, each with its model."""

    async def store(
        self, batch: EmbeddingBatch, transaction: Transaction, vectors: Sequence[Vector]
    ) -> None:
        """Store a batch and the progress up to it; batches are stored in order."""
        await batch.store(transaction, vectors)
        positions = [node.position for node in batch.nodes if node.position is not None]
        await self._store_position(transaction, max(positions, default=None))

    async def end(self, transaction: Transaction) -> None:
        """Record that all batches are stored."""
        await self._store_position(transaction, self.end_position)

    async def _store_position(
        self, transaction: Transaction, position: SweepPosition | None
    ) -> None:
        """Store the position, unless another process has changed it since, to advance or to rewind the sweep."""
        if position is None or (self.model, *position) in self.known_positions:
            return
        known = [
            dict(zip(("model", "at", "id"), each, strict=True)) for each in self.known_positions
        ]
        params = {
            "agent": self.scope.agent_id,
            "model": self.model,
            "through_at": position[0],
            "through_id": position[1],
            "known": json_text(known),
        }
        await _STORE_POSITION.run(transaction, params)
        self.known_positions.append((self.model, *position))


async def plan_step_batches(
    transaction: Transaction,
    scope: GraphScope,
    embedding_search: EmbeddingSearch,
    node_ids: Sequence[UUID],
) -> Sequence[EmbeddingBatch]:
    """Batches of the nodes that the step has written; empty if the server has no pgvector."""
    if not await pgvector.is_installed(transaction):
        return ()
    own = list(node_ids)[:MAX_STEP_NODES]
    params = {**scope.sql_params, "own": uuid_array(own)}
    rows_by_id = {row.id: row for row in await _STEP_NODES.rows(transaction, params)}
    # Divided before stale nodes are selected, so that a resumed step builds the same batches.
    return [
        batch
        for chunk in _chunk(own)
        for batch in _batches(
            scope,
            embedding_search.model,
            [rows_by_id[node_id] for node_id in chunk if node_id in rows_by_id],
        )
    ]


async def plan_sweep(
    transaction: Transaction, scope: GraphScope, embedding_search: EmbeddingSearch
) -> Sweep | None:
    """The next sweep over the agent's other nodes; None if the server has no pgvector."""
    if not await pgvector.is_installed(transaction):
        return None
    model = embedding_search.model
    last = await _POSITION.row(transaction, {"agent": scope.agent_id})
    start: tuple[str, datetime, UUID] = tuple(last) if last else (model, *_BEGINNING)
    updated_at, node_id = start[1:] if start[0] == model else _BEGINNING
    params = {**scope.sql_params, "at": updated_at, "last": node_id, "most": MAX_SWEEP_NODES}
    rows = await _SWEEP.rows(transaction, params)
    positions = [position for row in rows if (position := _row_position(row)) is not None]
    end_position = max(positions, default=None)
    return Sweep(scope, model, _batches(scope, model, rows), end_position, [start])


async def rewind_sweep(
    transaction: Transaction, scope: GraphScope, node_ids: Sequence[UUID]
) -> None:
    """Restart the sweep before these nodes, whose content changed back to an earlier state.

    A running sweep may not have seen them: the position changes in any case, so that it cannot store its own.
    """
    await _REWIND.run(transaction, {**scope.sql_params, "ids": uuid_array(node_ids)})


def _row_position(row: Row) -> SweepPosition | None:
    return (row.updated_at, row.id) if row.is_settled else None


def _batches(scope: GraphScope, model: str, rows: Sequence[Row]) -> Sequence[EmbeddingBatch]:
    """Batches of the nodes whose embedding is missing or out of date."""
    stale_nodes = []
    for row in rows:
        text_of_node = embedding_text(row.type, row.name, row.properties)
        node = _Node(row.id, text_of_node, _row_position(row))
        if row.model != model or row.text_sha256 != node.sha256:
            stale_nodes.append(node)
    return [EmbeddingBatch(scope, model, chunk) for chunk in _chunk(stale_nodes)]


def _chunk(items: Sequence[T]) -> Sequence[Sequence[T]]:
    return [
        items[start : start + MAX_BATCH_TEXTS] for start in range(0, len(items), MAX_BATCH_TEXTS)
    ]


_NODES: Final = (
    "select nodes.id, type, name, properties, nodes.updated_at, model, text_sha256,"
    f" nodes.updated_at < clock_timestamp() - interval '{LATE_COMMIT_SECONDS} seconds' as is_settled"
    " from graph_nodes nodes left join node_embeddings on node_id = nodes.id"
    f" where nodes.agent_id = {OWNED_AGENT_ID_SQL}"
)
_STEP_NODES: Final = CompiledStatement(f"{_NODES} and nodes.id = any(cast(:own as uuid[]))")
_SWEEP: Final = CompiledStatement(
    f"{_NODES} and (nodes.updated_at, nodes.id) > (:at, :last)"
    " order by nodes.updated_at, nodes.id limit :most"
)
