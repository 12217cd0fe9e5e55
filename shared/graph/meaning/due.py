"""Nodes that have no vector yet, or one of what they said before.

A step sees to those that it wrote. One of each iteration's then goes through all others from where the last one ended, in
the order in which they were written last: so none is missed, whoever wrote it and whatever failed, and no step looks at
more than so many.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Row, func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.meaning.meaning import Meaning
from shared.graph.meaning.texts import text_of
from shared.graph.scope import OWNED_SQL, Scope
from shared.graph.turns import write_beside_others
from shared.store import nearness
from shared.store.embeddings import EmbeddingRequest, Vector
from shared.store.tables import EmbeddingSweep, GraphNode, NodeEmbedding

OWN: Final = 128
"""Of the step's own nodes; what it wrote besides is found as others are."""
SWEPT: Final = 128
"""Of all others, that one step looks at."""
LATE_SECONDS: Final = 600
"""What was written at a moment may come to be seen that much later: so far back all is looked at again."""
_BEGINNING: Final = (datetime(1970, 1, 1, tzinfo=UTC), UUID(int=0))

_NEW: Final = insert(NodeEmbedding)
_KEEP: Final = _NEW.on_conflict_do_update(
    index_elements=["node_id"],
    set_={
        "model": _NEW.excluded.model,
        "text_sha256": _NEW.excluded.text_sha256,
        "meaning": _NEW.excluded.meaning,
        "updated_at": func.clock_timestamp(),
    },
)

Place = tuple[datetime, UUID]


@dataclass(frozen=True)
class _Node:
    id: UUID
    text: str

    @property
    def sha256(self) -> bytes:
        return hashlib.sha256(self.text.encode()).digest()


@dataclass(frozen=True)
class Due:
    """What a step has to see to; it may be that no node is."""

    scope: Scope
    model: str
    nodes: Sequence[_Node]
    through: Place
    """How far all were gone through."""

    @property
    def request(self) -> EmbeddingRequest:
        return EmbeddingRequest(self.model, tuple(each.text for each in self.nodes))

    async def keep(self, session: AsyncSession, vectors: Sequence[Vector]) -> None:
        """As many as there are nodes. What has gone meanwhile is left out."""
        # So that none is merged away between the look and the write.
        await write_beside_others(session, self.scope)
        there = set(
            await session.scalars(
                select(GraphNode.id).where(GraphNode.id.in_([each.id for each in self.nodes]))
            )
        )
        rows = [
            {
                "node_id": node.id,
                "agent_id": self.scope.agent_id,
                "model": self.model,
                "text_sha256": node.sha256,
                "meaning": list(vector),
            }
            for node, vector in zip(self.nodes, vectors, strict=True)
            if node.id in there
        ]
        if rows:
            # In one order, so that two who keep the same never wait for each other in a circle.
            await session.execute(_KEEP, sorted(rows, key=itemgetter("node_id")))
        await self.note(session)

    async def note(self, session: AsyncSession) -> None:
        """Notes how far it has gone."""
        at, last = self.through
        place = {"model": self.model, "through_at": at, "through_id": last}
        await session.execute(
            insert(EmbeddingSweep)
            .values(agent_id=self.scope.agent_id, **place)
            .on_conflict_do_update(index_elements=["agent_id"], set_=place)
        )


async def due(
    session: AsyncSession, scope: Scope, meaning: Meaning, own: Sequence[UUID], *, sweeps: bool
) -> Due | None:
    """`own` are nodes that the step has written; the others are gone through where it `sweeps`.

    None where nobody could look for what is near.
    """
    if not await nearness.is_there(session):
        return None
    begun = await _begun(session, scope, meaning)
    given = {**scope.bound, "own": list(own)[:OWN], "at": begun[0], "last": begun[1], "most": SWEPT}
    of_step = (await session.execute(_OF_STEP, given)).all()
    swept = (await session.execute(_SWEEP, given)).all() if sweeps else ()
    by_id = {row.id: row for row in (*of_step, *swept)}
    nodes = [each for row in by_id.values() if (each := _stale(row, meaning)) is not None]
    through = max((_place(row) for row in swept if row.is_settled), default=begun)
    return Due(scope, meaning.model, nodes, through)


async def sweep_again(session: AsyncSession, scope: Scope, nodes: Sequence[UUID]) -> None:
    """These say again what they said long ago: whoever sweeps next begins no later than with them."""
    since = select(func.min(GraphNode.updated_at)).where(GraphNode.id.in_(nodes)).scalar_subquery()
    await session.execute(
        update(EmbeddingSweep)
        .where(EmbeddingSweep.agent_id == scope.agent(), EmbeddingSweep.through_at >= since)
        .values(through_at=since, through_id=UUID(int=0))
        .execution_options(synchronize_session=False)
    )


async def _begun(session: AsyncSession, scope: Scope, meaning: Meaning) -> Place:
    """How far earlier steps went; another model's steps do not count."""
    swept = await session.get(EmbeddingSweep, scope.agent_id)
    if swept is None or swept.model != meaning.model:
        return _BEGINNING
    return swept.through_at, swept.through_id


def _place(row: Row[Any]) -> Place:
    return row.updated_at, row.id


def _stale(row: Row[Any], meaning: Meaning) -> _Node | None:
    """None where its vector is of what it says now."""
    node = _Node(row.id, text_of(row.type, row.name, row.properties))
    is_fresh = row.model == meaning.model and row.text_sha256 == node.sha256
    return None if is_fresh else node


_NODES: Final = (
    "select nodes.id, type, name, properties, nodes.updated_at, model, text_sha256,"
    f" nodes.updated_at < clock_timestamp() - interval '{LATE_SECONDS} seconds' as is_settled"
    " from graph_nodes nodes left join node_embeddings on node_id = nodes.id"
    f" where nodes.agent_id = {OWNED_SQL}"
)
_OF_STEP: Final = text(f"{_NODES} and nodes.id = any(cast(:own as uuid[]))")
_SWEEP: Final = text(
    f"{_NODES} and (nodes.updated_at, nodes.id) > (:at, :last)"
    " order by nodes.updated_at, nodes.id limit :most"
)
