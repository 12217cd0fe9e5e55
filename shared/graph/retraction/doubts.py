"""Doubts: conclusions that rest on what a retraction has changed."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, cast
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    DateTime,
    Row,
    Select,
    Table,
    Update,
    Uuid,
    any_,
    bindparam,
    column,
    exists,
    func,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB, Insert, distinct_on, insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from shared.database import ids
from shared.database.tables import Citation, Doubt, GraphNode, Source
from shared.graph.entity_resolution import redirects
from shared.graph.projection import Claimed
from shared.graph.provenance.claims import Claim, standing
from shared.schemas.provenance import DoubtView


def shaken_by(
    claims: Iterable[Claim],
    source_of: Mapping[UUID, UUID],
    retracted_at: Mapping[UUID, datetime],
) -> set[UUID]:
    """The retracted sources but for which other values would hold, or the thing would have a page that speaks for it.

    A retracted source that others bear out shakes nothing, whenever they come to do it. One whose value gave way to another
    after it was retracted shakes it still: what was concluded from that value was never borne out. `source_of` gives each
    evidence's source, `retracted_at` since when each is retracted. It follows from these alone, so that a retraction that
    is undone leaves no trace, whatever was retracted and undone meanwhile.
    """
    known = list(claims)
    if all(claim.is_retracted for claim in known):
        return {source_of[claim.evidence_id] for claim in known}
    holds = standing(known)
    return {
        source
        for source in {source_of[claim.evidence_id] for claim in known if claim.is_retracted}
        if _shakes(source, holds, _held_at(retracted_at[source], known), source_of)
    }


def _held_at(moment: datetime, claims: Iterable[Claim]) -> dict[str, Claim]:
    """What held, or would have if nothing had been retracted."""
    return standing(
        replace(claim, is_retracted=False) for claim in claims if claim.learned_at <= moment
    )


def _shakes(
    source: UUID,
    holds: Mapping[str, Claim],
    held: Mapping[str, Claim],
    source_of: Mapping[UUID, UUID],
) -> bool:
    return any(
        source_of[claim.evidence_id] == source
        and (name not in holds or holds[name].values[name] != claim.values[name])
        for name, claim in held.items()
    )


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


async def weigh(
    session: AsyncSession, things: Mapping[UUID, Claimed], *, because_of: UUID | None = None
) -> None:
    """Brings the doubts that these nodes and edges give cause to up to what is claimed of them now.

    `because_of` is the source whose retraction is being gone through, if one is: whatever was concluded by now may rest on
    what it had said.
    """
    shaken = _shaken(things)
    await _settle(session, things, shaken)
    rows = [
        _row(conclusion, thing, source)
        for thing, conclusion in await _resting_on(session, shaken)
        for source in shaken[thing]
    ]
    if rows:
        await session.execute(_RAISE, {"rows": rows, "because_of": because_of})


async def carry(session: AsyncSession, places: Mapping[UUID, UUID]) -> None:
    """The doubts of things that are elsewhere now, by where: they are of that, and as old as they were."""
    found = await opened(session, Doubt.thing_id == any_(array(places)))
    rows = [
        _row(each.conclusion_id, places[each.thing_id], each.source_id)
        | {"since": each.since.isoformat()}
        for each in found
    ]
    if rows:
        await session.execute(_CARRY, {"rows": rows})
        await session.execute(_CLEARED, {"ids": [each.id for each in found]})


async def give_back(session: AsyncSession, things: Collection[UUID], since: datetime) -> None:
    """Opens what was cleared since then, when it was carried elsewhere; whoever asks weighs the things after that."""
    of_them = Doubt.thing_id == any_(array(things))
    await session.execute(
        update(Doubt)
        .where(of_them, Doubt.cleared_at >= since)
        .values(cleared_at=None)
        .execution_options(synchronize_session=False)
    )


async def lift(session: AsyncSession, things: Mapping[UUID, Claimed]) -> list[UUID]:
    """As `weigh`, but raises none: what was concluded since the pages were retracted does not rest on them.

    The doubts that were lifted.
    """
    lifted, left = await _settle(session, things, _shaken(things))
    await session.execute(_WEIGHED, {"ids": left})
    return lifted


async def clear(session: AsyncSession, sources: Collection[UUID]) -> None:
    """Nothing is doubted because of these any more."""
    found = await opened(session, Doubt.source_id == any_(array(sources)))
    await session.execute(_CLEARED, {"ids": [each.id for each in found]})


async def opened(
    session: AsyncSession, where: ColumnElement[bool]
) -> Sequence[Row[UUID, UUID, UUID, UUID, datetime]]:
    """The doubts that are open. Locks them in the order of their ids: whoever changes several begins so."""
    found = await session.execute(
        select(Doubt.id, Doubt.conclusion_id, Doubt.thing_id, Doubt.source_id, Doubt.since)
        .where(where, Doubt.cleared_at.is_(None))
        .order_by(Doubt.id)
        .with_for_update()
    )
    return found.all()


async def _settle(
    session: AsyncSession, things: Collection[UUID], shaken: Shaken
) -> tuple[list[UUID], list[UUID]]:
    """The doubts of the things that are put an end to, and those that are left."""
    lifted: list[UUID] = []
    left: list[UUID] = []
    for each in await opened(session, Doubt.thing_id == any_(array(things))):
        stays = each.source_id in shaken.get(each.thing_id, ())
        (left if stays else lifted).append(each.id)
    await session.execute(_CLEARED, {"ids": lifted})
    return lifted, left


def array(given: Collection[UUID]) -> ColumnElement[Any]:
    """As one argument of a statement, which can be given only so many."""
    return literal(list(given), ARRAY(Uuid()))


def _of_ids(**values: Any) -> Update:
    of_ids = Doubt.id == any_(bindparam("ids", type_=ARRAY(Uuid())))
    changed = update(Doubt).where(of_ids).values(**values)
    return changed.execution_options(synchronize_session=False)


_CLEARED: Final = _of_ids(cleared_at=func.clock_timestamp())
_WEIGHED: Final = _of_ids(weighed_at=func.clock_timestamp())


def _row(conclusion: UUID, thing: UUID, source: UUID) -> dict[str, str]:
    return {
        "id": str(ids.doubt_id(conclusion, thing, source)),
        "conclusion_id": str(conclusion),
        "thing_id": str(thing),
        "source_id": str(source),
    }


_COLUMNS: Final = ("id", "conclusion_id", "thing_id", "source_id")
_TOLD: Final = (
    func.jsonb_to_recordset(bindparam("rows", type_=JSONB))
    .table_valued(
        *(column(name, Uuid) for name in _COLUMNS), column("since", DateTime(timezone=True))
    )
    .render_derived(name="told", with_types=True)
)
_ONCE: Final = aliased(Doubt)
_RESTS: Final = or_(
    GraphNode.created_at < Source.retracted_at,
    Source.id == bindparam("because_of", type_=Uuid()),
    exists().where(_ONCE.id == _TOLD.c.id),
)
"""Whether a conclusion rests on what a source had said: it was made before that was retracted, or before what follows
was gone through; what was in doubt because of it once was.
"""


def _opened(rows: Select[*tuple[Any, ...]]) -> Insert:
    """Of `_COLUMNS` and since when. One that is open stays as it is."""
    # The table, not the class: whose values are in `rows`, not one by one.
    doubt = insert(cast("Table", Doubt.__table__))
    doubt = doubt.from_select([*_COLUMNS, "since"], rows.order_by(_TOLD.c.id))
    return doubt.on_conflict_do_update(
        index_elements=[Doubt.id],
        set_={"since": doubt.excluded.since, "cleared_at": None, "weighed_at": None},
        where=Doubt.cleared_at.is_not(None),
    )


_GIVEN: Final = tuple(_TOLD.c[name] for name in _COLUMNS)
_RAISE: Final = _opened(
    select(*_GIVEN, func.clock_timestamp())
    .join(GraphNode, GraphNode.id == _TOLD.c.conclusion_id)
    .join(Source, Source.id == _TOLD.c.source_id)
    .where(_RESTS)
)
_CARRY: Final = _opened(select(*_GIVEN, _TOLD.c.since).ext(distinct_on(_TOLD.c.id)))


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
    earlier = await redirects.earlier_ids(session, things)
    now = {each: thing for thing, gone in earlier.items() for each in gone}
    direct = (
        select(Citation.cited_id.label("thing"), Citation.conclusion_id.label("conclusion"))
        .where(Citation.cited_id == any_(array([*things, *now])))
        .cte("resting", recursive=True)
    )
    onwards = select(direct.c.thing, Citation.conclusion_id).join(
        direct, Citation.cited_id == direct.c.conclusion
    )
    resting = direct.union(onwards)
    rows = await session.execute(select(resting.c.thing, resting.c.conclusion))
    return sorted({(now.get(row.thing, row.thing), row.conclusion) for row in rows})
