"""Conclusions that are in doubt: they rest on a thing that a retraction made something else, or on one that does."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import ColumnElement, Update, exists, func, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.claimed import Claimed
from shared.graph.proof.shaken import shaken_by
from shared.store import ids
from shared.store.reading import moves
from shared.store.reading.retraction_shapes import DoubtView
from shared.store.tables import Citation, Doubt, GraphNode, Source

Shaken = Mapping[UUID, Collection[UUID]]
"""By node or edge the sources whose retraction shakes it."""


def is_doubted() -> ColumnElement[bool]:
    """Whether a node is a conclusion in doubt."""
    return exists().where(Doubt.conclusion_id == GraphNode.id, Doubt.cleared_at.is_(None))


async def since(session: AsyncSession, conclusions: Collection[UUID]) -> Mapping[UUID, datetime]:
    """Since when each of these is in doubt; those that are not are left out."""
    rows = await session.execute(
        select(Doubt.conclusion_id, func.min(Doubt.since))
        .where(Doubt.conclusion_id.in_(conclusions), Doubt.cleared_at.is_(None))
        .group_by(Doubt.conclusion_id)
    )
    return {row[0]: row[1] for row in rows}


async def of_each(
    session: AsyncSession, conclusions: Collection[UUID]
) -> Mapping[UUID, list[DoubtView]]:
    """Why each of these is in doubt, the oldest reason first; those that are not are left out."""
    first = func.min(Doubt.since)
    rows = await session.execute(
        select(Doubt.conclusion_id, first, Source.id, Source.url, Source.retracted_because)
        .join(Source, Source.id == Doubt.source_id)
        .where(Doubt.conclusion_id.in_(conclusions), Doubt.cleared_at.is_(None))
        .group_by(Doubt.conclusion_id, Source.id)
        .order_by(Doubt.conclusion_id, first, Source.id)
    )
    found: defaultdict[UUID, list[DoubtView]] = defaultdict(list)
    for conclusion, moment, source, url, because in rows:
        found[conclusion].append(
            DoubtView(since=moment, source_id=source, url=url, because=because or "")
        )
    return found


async def weigh(session: AsyncSession, things: Mapping[UUID, Claimed]) -> None:
    """Brings the doubts that these nodes and edges give cause to up to what is claimed of them now."""
    shaken = _shaken(things)
    await _settle(session, things, shaken)
    rows = [
        {
            "id": ids.doubt_id(conclusion, thing, source),
            "conclusion_id": conclusion,
            "thing_id": thing,
            "source_id": source,
        }
        for thing, conclusion in await _resting_on(session, shaken)
        for source in shaken[thing]
    ]
    if rows:
        await _raise(session, rows)


async def lift(session: AsyncSession, things: Mapping[UUID, Claimed]) -> list[UUID]:
    """As `weigh`, but raises none: what was concluded since the pages were retracted does not rest on them.

    The doubts that were lifted.
    """
    lifted = await _settle(session, things, _shaken(things))
    await session.execute(
        _open(things)
        .values(weighed_at=func.clock_timestamp())
        .execution_options(synchronize_session=False)
    )
    return lifted


async def _settle(session: AsyncSession, things: Collection[UUID], shaken: Shaken) -> list[UUID]:
    pairs = [(thing, source) for thing, sources in shaken.items() for source in sources]
    settled = _open(things)
    if pairs:
        settled = settled.where(tuple_(Doubt.thing_id, Doubt.source_id).not_in(pairs))
    return list((await session.scalars(_cleared(settled).returning(Doubt.id))).all())


def _open(things: Collection[UUID]) -> Update:
    return update(Doubt).where(Doubt.thing_id.in_(things), Doubt.cleared_at.is_(None))


async def clear(session: AsyncSession, sources: Collection[UUID]) -> None:
    """Nothing is doubted because of these any more."""
    settled = update(Doubt).where(Doubt.source_id.in_(sources), Doubt.cleared_at.is_(None))
    await session.execute(_cleared(settled))


def _cleared(doubts: Update) -> Update:
    return doubts.values(cleared_at=func.clock_timestamp()).execution_options(
        synchronize_session=False
    )


async def _raise(session: AsyncSession, rows: Sequence[Mapping[str, UUID]]) -> None:
    doubt = insert(Doubt).values(sorted(rows, key=lambda row: row["id"]))
    await session.execute(
        doubt.on_conflict_do_update(
            index_elements=[Doubt.id],
            set_={"since": func.clock_timestamp(), "cleared_at": None, "weighed_at": None},
            where=Doubt.cleared_at.is_not(None),
        )
    )


def _shaken(things: Mapping[UUID, Claimed]) -> Shaken:
    found = {
        thing: shaken_by(known.claims, known.source_of, known.retracted_at)
        for thing, known in things.items()
    }
    return {thing: sources for thing, sources in found.items() if sources}


async def _resting_on(session: AsyncSession, things: Collection[UUID]) -> list[tuple[UUID, UUID]]:
    """Each thing with each conclusion that cites it, or what was merged into it, or cites one that does."""
    if not things:
        return []
    earlier = await moves.earlier_ids(session, things)
    now = {each: thing for thing, gone in earlier.items() for each in gone}
    direct = (
        select(Citation.cited_id.label("thing"), Citation.conclusion_id.label("conclusion"))
        .where(Citation.cited_id.in_([*things, *now]))
        .cte("resting", recursive=True)
    )
    onwards = select(direct.c.thing, Citation.conclusion_id).join(
        direct, Citation.cited_id == direct.c.conclusion
    )
    resting = direct.union(onwards)
    rows = await session.execute(select(resting.c.thing, resting.c.conclusion))
    return sorted({(now.get(row.thing, row.thing), row.conclusion) for row in rows})
