"""What an iteration's pages tell otherwise than the pages before them."""

from typing import Any
from uuid import UUID

from sqlalchemy import Select, Text, column, func, or_, select, true
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute, aliased

from shared.store.reading import graph
from shared.store.reading.iteration_shapes import Superseded
from shared.store.tables import Evidence, Step


async def in_iteration(
    session: AsyncSession, owner_id: UUID, agent_id: UUID, iteration_id: UUID, *, most: int
) -> list[Superseded]:
    """At most so many of nodes, and of edges. The caller has seen to it that the iteration is the owner's."""
    nodes = (await session.execute(_of(Evidence.node_id, iteration_id).limit(most))).all()
    edges = (await session.execute(_of(Evidence.edge_id, iteration_id).limit(most))).all()
    ids = [row.thing_id for row in (*nodes, *edges)]
    names = await graph.named(session, owner_id, agent_id, ids)
    return [
        Superseded(
            kind=kind,
            id=row.thing_id,
            name=names[row.thing_id].name,
            property=row.property,
            before=row.before,
            after=row.after,
        )
        for kind, rows in (("node", nodes), ("edge", edges))
        for row in rows
        if row.thing_id in names
    ]


def _of(thing: InstrumentedAttribute[UUID | None], iteration_id: UUID) -> Select[Any]:
    """Claims of the iteration, each beside the newest earlier one of the same property that is told otherwise."""
    now, before = aliased(Evidence), aliased(Evidence)
    now_thing, before_thing = getattr(now, thing.key), getattr(before, thing.key)
    steps = select(Step.id).where(Step.iteration_id == iteration_id)
    claim = (
        func.jsonb_each(now.claims)
        .table_valued(column("key", Text), column("value", JSONB), name="claim")
        .render_derived()
    )
    earlier = (
        select(before.claims[claim.c.key].label("value"))
        .where(
            before_thing == now_thing,
            before.as_of <= now.as_of,
            before.learned_at < now.learned_at,
            or_(before.step_id.is_(None), before.step_id.not_in(steps)),
            before.claims.has_key(claim.c.key),
        )
        .order_by(before.as_of.desc(), before.learned_at.desc())
        .limit(1)
        .lateral()
    )
    return (
        select(
            now_thing.label("thing_id"),
            claim.c.key.label("property"),
            earlier.c.value.label("before"),
            claim.c.value.label("after"),
        )
        .select_from(now)
        .join(claim, true())
        .join(earlier, true())
        .where(now.step_id.in_(steps), earlier.c.value != claim.c.value)
        .order_by(now_thing, claim.c.key)
    )
