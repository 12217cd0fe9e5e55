"""Nodes whose embedding is missing or out of date.

A step sees to those that it wrote. One of each iteration's then goes through all others from where the last one ended, in
the order in which they were written last: so none is missed, whoever wrote it and whatever failed, and no step looks at
more than so many.

A step that is resumed asks for the same again, in the same order, less what it has kept. Only where others have written
these nodes meanwhile is it another call, beside the one that was in flight: of at most TOGETHER texts.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any, Final, TypeVar
from uuid import UUID

from sqlalchemy import Row, func, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.billing.embedding_cache import EmbeddingRequest, Vector
from shared.database import pgvector
from shared.database.locks import write_beside_others
from shared.database.tables import EmbeddingSweep, GraphNode, NodeEmbedding
from shared.graph.retrieval.node_search import Meaning
from shared.graph.scope import OWNED_SQL, Scope
from shared.graph.validation import one_line
from shared.tools import Json

MOST_CHARACTERS: Final = 600
"""Some 150 tokens: what tells a node from others stands at its beginning."""
_SHORT: Final = 120
"""Characters of a property that is no summary."""


def text_of(type_name: str, name: str, properties: Json) -> str:
    """Its name, type and summary, then what short properties say; on one line."""
    summary = properties.get("summary")
    parts = [name, type_name, summary if isinstance(summary, str) else "", *_told(properties)]
    return one_line("; ".join(part for part in parts if part))[:MOST_CHARACTERS].rstrip()


def _told(properties: Json) -> Iterator[str]:
    for name, value in sorted(properties.items()):
        told = _as_text(value)
        if name != "summary" and 0 < len(told) <= _SHORT:
            yield f"{name.replace('_', ' ')}: {told}"


def _as_text(value: Any) -> str:
    """Empty where it is nothing that can be said in a word or two."""
    match value:
        case bool():
            return "yes" if value else "no"
        case str():
            return value
        case int() | float():
            return str(value)
        case list():
            return ", ".join(each for each in value if isinstance(each, str))
        case _:
            return ""


OWN: Final = 128
"""Of the step's own nodes; what it wrote besides is found as others are."""
SWEPT: Final = 128
"""Of all others, that one step looks at."""
TOGETHER: Final = 32
"""Texts of one call: what fails or is refused is no more than these."""
LATE_SECONDS: Final = 600
"""What was written at a moment may come to be seen that much later: so far back all is looked at again."""
_BEGINNING: Final = (datetime(1970, 1, 1, tzinfo=UTC), UUID(int=0))
_A_MOMENT: Final = timedelta(microseconds=1)

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

T = TypeVar("T")
Place = tuple[datetime, UUID]


@dataclass(frozen=True)
class _Node:
    id: UUID
    text: str
    place: Place | None
    """None where others as old may still come to be seen."""

    @property
    def sha256(self) -> bytes:
        return hashlib.sha256(self.text.encode()).digest()


@dataclass(frozen=True)
class Due:
    """Nodes that one call is made for."""

    scope: Scope
    model: str
    nodes: Sequence[_Node]

    @property
    def request(self) -> EmbeddingRequest:
        return EmbeddingRequest(self.model, tuple(each.text for each in self.nodes))

    @property
    def halves(self) -> Sequence["Due"]:
        """In their order; none of a single node."""
        middle = len(self.nodes) // 2
        if not middle:
            return ()
        return [
            Due(self.scope, self.model, some) for some in (self.nodes[:middle], self.nodes[middle:])
        ]

    async def keep(self, session: AsyncSession, vectors: Sequence[Vector]) -> None:
        """As many as there are nodes. What has gone meanwhile is left out."""
        # So that none is merged away between the look and the write.
        await write_beside_others(session, self.scope.agent_id)
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


class Sweep:
    """One passage through nodes of the agent, from where the last one ended."""

    def __init__(
        self,
        scope: Scope,
        model: str,
        batches: Sequence[Due],
        begun: tuple[str, *Place],
        through: Place | None,
    ) -> None:
        """`begun` is what was noted last, and of which model; `through` how far this one looks, None if nowhere."""
        self.batches = batches
        self._scope = scope
        self._model = model
        self._through = through
        self._noted = [begun]

    async def keep(self, batch: Due, session: AsyncSession, vectors: Sequence[Vector]) -> None:
        """And notes that all up to it were gone through: batches come in their order."""
        await batch.keep(session, vectors)
        places = [each.place for each in batch.nodes if each.place is not None]
        await self._note(session, max(places, default=None))

    async def end(self, session: AsyncSession) -> None:
        """All were gone through."""
        await self._note(session, self._through)

    async def _note(self, session: AsyncSession, place: Place | None) -> None:
        """Nothing where another has noted something since: it may have gone farther, or sent whoever is next back."""
        if place is None or (self._model, *place) in self._noted:
            return
        values = {"model": self._model, "through_at": place[0], "through_id": place[1]}
        stands = tuple_(EmbeddingSweep.model, EmbeddingSweep.through_at, EmbeddingSweep.through_id)
        await session.execute(
            insert(EmbeddingSweep)
            .values(agent_id=self._scope.agent_id, **values)
            .on_conflict_do_update(
                index_elements=["agent_id"], set_=values, where=stands.in_(self._noted)
            )
        )
        self._noted.append((self._model, *place))


async def of_step(
    session: AsyncSession, scope: Scope, meaning: Meaning, own: Sequence[UUID]
) -> Sequence[Due]:
    """Of `own`, which the step has written. Empty where nobody could look for what is near."""
    if not await pgvector.is_there(session):
        return ()
    given = {**scope.bound, "own": list(own)[:OWN]}
    by_id = {row.id: row for row in await session.execute(_OF_STEP, given)}
    # Divided before it is known which are due: so the others stay together, whatever was kept of them.
    return [
        batch
        for some in _divided(given["own"])
        for batch in _batches(scope, meaning, [by_id[each] for each in some if each in by_id])
    ]


async def sweep(session: AsyncSession, scope: Scope, meaning: Meaning) -> Sweep | None:
    """Of all others. None where nobody could look for what is near."""
    if not await pgvector.is_there(session):
        return None
    begun = await _begun(session, scope, meaning)
    model, at, last = begun
    if model != meaning.model:
        at, last = _BEGINNING
    given = {**scope.bound, "at": at, "last": last, "most": SWEPT}
    rows = (await session.execute(_SWEEP, given)).all()
    through = max((place for row in rows if (place := _place(row)) is not None), default=None)
    return Sweep(scope, meaning.model, _batches(scope, meaning, rows), begun, through)


async def sweep_again(session: AsyncSession, scope: Scope, nodes: Sequence[UUID]) -> None:
    """These say again what they said long ago: whoever sweeps next begins before them.

    Whoever sweeps just now may not have seen them: the place is another in any case, so that they note nothing.
    """
    since = select(func.min(GraphNode.updated_at)).where(GraphNode.id.in_(nodes)).scalar_subquery()
    await session.execute(
        update(EmbeddingSweep)
        .where(EmbeddingSweep.agent_id == scope.agent())
        .values(through_at=func.least(EmbeddingSweep.through_at, since) - _A_MOMENT)
        .execution_options(synchronize_session=False)
    )


async def _begun(session: AsyncSession, scope: Scope, meaning: Meaning) -> tuple[str, *Place]:
    """What earlier steps noted, and of which model."""
    swept = await session.get(EmbeddingSweep, scope.agent_id)
    if swept is None:
        return meaning.model, *_BEGINNING
    return swept.model, swept.through_at, swept.through_id


def _place(row: Row[Any]) -> Place | None:
    return (row.updated_at, row.id) if row.is_settled else None


def _batches(scope: Scope, meaning: Meaning, rows: Sequence[Row[Any]]) -> Sequence[Due]:
    nodes = [each for row in rows if (each := _stale(row, meaning)) is not None]
    return [Due(scope, meaning.model, some) for some in _divided(nodes)]


def _divided(things: Sequence[T]) -> Sequence[Sequence[T]]:
    return [things[first : first + TOGETHER] for first in range(0, len(things), TOGETHER)]


def _stale(row: Row[Any], meaning: Meaning) -> _Node | None:
    """None where its vector is of what it says now."""
    node = _Node(row.id, text_of(row.type, row.name, row.properties), _place(row))
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
