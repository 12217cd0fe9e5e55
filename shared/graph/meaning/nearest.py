"""Nodes whose vectors are the nearest to one that is asked for."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.meaning.meaning import Near
from shared.graph.ranking import Candidate
from shared.graph.scope import OWNED_SQL, Scope
from shared.graph.standing import STANDS
from shared.store.tables.meaning import AS_VECTOR, DIMENSIONS

SHOWN: Final = 10
"""Nodes that one search adds for their meaning."""
COMPARED: Final = 5_000
"""An agent's vectors up to so many are all compared, which costs milliseconds and misses none; of more the index gives
the nearest, which it may miss some of."""
_LOOKED_AT: Final = 100
"""The nearest, of which types and times then leave some out."""


async def nearest(session: AsyncSession, scope: Scope, near: Near) -> list[UUID]:
    """Nodes near enough, the nearest first."""
    given = {
        **scope.bound,
        "vector": list(near.vector),
        "model": near.model,
        "farthest": 1 - near.least,
        "most": COMPARED,
    }
    few = await session.scalar(text(_FEW), given)
    if not few:
        # One index holds the vectors of all agents: it goes on until enough of this one's are found. In order it would
        # leave out what it comes upon late; they are put in order behind it.
        await session.execute(text("set local hnsw.iterative_scan = relaxed_order"))
    found = await session.execute(text(_OF_FEW if few else OF_MANY), given)
    return list(found.scalars())


def in_order(candidates: Sequence[Candidate], ids: Sequence[UUID]) -> list[Candidate]:
    """The first of them as they stand in `ids`."""
    places = {node_id: place for place, node_id in enumerate(ids)}
    placed = [replace(each, place=places[each.id]) for each in candidates]
    return sorted(placed, key=lambda each: each.place)[:SHOWN]


AMONG: Final = (
    f"select id, name, updated_at from graph_nodes where agent_id = {{agent}} and {STANDS}{{of_types}}"
    " and id = any(cast(:near_ids as uuid[]))"
)
"""As the other ways of `shared.graph.search`."""

_OWN: Final = f"agent_id = {OWNED_SQL} and model = :model"
_FAR: Final = f"<=> cast(cast(:vector as real[]) as vector({DIMENSIONS}))"
_FEW: Final = (
    "select count(*) <= :most from"
    f" (select from node_embeddings where {_OWN} limit cast(:most as bigint) + 1) own"
)
# Materialized, so that it is this agent's vectors that are gone through, and not the index.
_OF_FEW: Final = (
    f"with own as materialized (select node_id, {AS_VECTOR} as meaning from node_embeddings where {_OWN})"
    f" select node_id from own where meaning {_FAR} <= :farthest"
    f" order by meaning {_FAR} limit {_LOOKED_AT}"
)
OF_MANY: Final = (
    "select node_id from ("
    f"select node_id, {AS_VECTOR} {_FAR} as far from node_embeddings where {_OWN}"
    f" order by {AS_VECTOR} {_FAR} limit {_LOOKED_AT}) nearest"
    # Added nothing to, it would count as being in order already.
    " where far <= :farthest order by far + 0"
)
