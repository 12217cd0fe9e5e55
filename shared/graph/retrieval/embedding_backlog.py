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
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any, Final, TypeVar
from uuid import UUID

from sqlalchemy import Row, func, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.billing.embedding_cache import EmbeddingRequest, Vector
from shared.database import pgvector
from shared.database.locks import shared_write_lock
from shared.database.tables import EmbeddingSweep, GraphNode, NodeEmbedding
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
_MICROSECOND: Final = timedelta(microseconds=1)

_INSERT: Final = insert(NodeEmbedding)
_STORE: Final = _INSERT.on_conflict_do_update(
    index_elements=["node_id"],
    set_={
        "model": _INSERT.excluded.model,
        "text_sha256": _INSERT.excluded.text_sha256,
        "embedding": _INSERT.excluded.embedding,
        "updated_at": func.clock_timestamp(),
    },
)

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

    async def store(self, session: AsyncSession, vectors: Sequence[Vector]) -> None:
        """Store the vectors, one per node. Nodes that were deleted meanwhile are skipped."""
        # So that no node is merged away between this check and the write.
        await shared_write_lock(session, self.scope.agent_id)
        existing_ids = set(
            await session.scalars(
                select(GraphNode.id).where(GraphNode.id.in_([node.id for node in self.nodes]))
            )
        )
        rows = [
            {
                "node_id": node.id,
                "agent_id": self.scope.agent_id,
                "model": self.model,
                "text_sha256": node.sha256,
                "embedding": list(vector),
            }
            for node, vector in zip(self.nodes, vectors, strict=True)
            if node.id in existing_ids
        ]
        if rows:
            # A fixed order prevents deadlocks between steps that store the same vectors.
            await session.execute(_STORE, sorted(rows, key=itemgetter("node_id")))


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
        self, batch: EmbeddingBatch, session: AsyncSession, vectors: Sequence[Vector]
    ) -> None:
        """Store a batch and the progress up to it; batches are stored in order."""
        await batch.store(session, vectors)
        positions = [node.position for node in batch.nodes if node.position is not None]
        await self._store_position(session, max(positions, default=None))

    async def end(self, session: AsyncSession) -> None:
        """Record that all batches are stored."""
        await self._store_position(session, self.end_position)

    async def _store_position(self, session: AsyncSession, position: SweepPosition | None) -> None:
        """Store the position, unless another process has changed it since, to advance or to rewind the sweep."""
        if position is None or (self.model, *position) in self.known_positions:
            return
        values = {"model": self.model, "through_at": position[0], "through_id": position[1]}
        current = tuple_(EmbeddingSweep.model, EmbeddingSweep.through_at, EmbeddingSweep.through_id)
        await session.execute(
            insert(EmbeddingSweep)
            .values(agent_id=self.scope.agent_id, **values)
            .on_conflict_do_update(
                index_elements=["agent_id"], set_=values, where=current.in_(self.known_positions)
            )
        )
        self.known_positions.append((self.model, *position))


async def plan_step_batches(
    session: AsyncSession,
    scope: GraphScope,
    embedding_search: EmbeddingSearch,
    node_ids: Sequence[UUID],
) -> Sequence[EmbeddingBatch]:
    """Batches of the nodes that the step has written; empty if the server has no pgvector."""
    if not await pgvector.is_installed(session):
        return ()
    params = {**scope.sql_params, "own": list(node_ids)[:MAX_STEP_NODES]}
    rows_by_id = {row.id: row for row in await session.execute(_STEP_NODES, params)}
    # Divided before stale nodes are selected, so that a resumed step builds the same batches.
    return [
        batch
        for chunk in _chunk(params["own"])
        for batch in _batches(
            scope,
            embedding_search.model,
            [rows_by_id[node_id] for node_id in chunk if node_id in rows_by_id],
        )
    ]


async def plan_sweep(
    session: AsyncSession, scope: GraphScope, embedding_search: EmbeddingSearch
) -> Sweep | None:
    """The next sweep over the agent's other nodes; None if the server has no pgvector."""
    if not await pgvector.is_installed(session):
        return None
    model = embedding_search.model
    last = await session.get(EmbeddingSweep, scope.agent_id)
    start = (last.model, last.through_at, last.through_id) if last else (model, *_BEGINNING)
    updated_at, node_id = start[1:] if start[0] == model else _BEGINNING
    params = {**scope.sql_params, "at": updated_at, "last": node_id, "most": MAX_SWEEP_NODES}
    rows = (await session.execute(_SWEEP, params)).all()
    positions = [position for row in rows if (position := _row_position(row)) is not None]
    end_position = max(positions, default=None)
    return Sweep(scope, model, _batches(scope, model, rows), end_position, [start])


async def rewind_sweep(session: AsyncSession, scope: GraphScope, node_ids: Sequence[UUID]) -> None:
    """Restart the sweep before these nodes, whose content changed back to an earlier state.

    A running sweep may not have seen them: the position changes in any case, so that it cannot store its own.
    """
    oldest_update = (
        select(func.min(GraphNode.updated_at)).where(GraphNode.id.in_(node_ids)).scalar_subquery()
    )
    await session.execute(
        update(EmbeddingSweep)
        .where(EmbeddingSweep.agent_id == scope.owned_agent_id())
        .values(through_at=func.least(EmbeddingSweep.through_at, oldest_update) - _MICROSECOND)
        .execution_options(synchronize_session=False)
    )


def _row_position(row: Row[Any]) -> SweepPosition | None:
    return (row.updated_at, row.id) if row.is_settled else None


def _batches(scope: GraphScope, model: str, rows: Sequence[Row[Any]]) -> Sequence[EmbeddingBatch]:
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
_STEP_NODES: Final = text(f"{_NODES} and nodes.id = any(cast(:own as uuid[]))")
_SWEEP: Final = text(
    f"{_NODES} and (nodes.updated_at, nodes.id) > (:at, :last)"
    " order by nodes.updated_at, nodes.id limit :most"
)
