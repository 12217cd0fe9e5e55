"""Investigation requests: made by Analyzers, open until a query answers them or they have grown old."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, cast
from uuid import UUID

from sqlalchemy import ColumnElement, Table, Uuid, and_, bindparam, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database import ids
from shared.database.statements import Asked, Direct, Row
from shared.database.tables import InvestigationRequest, Iteration

OPEN_FOR_ITERATIONS: Final = 10
"""A request that nobody answered for so long is dropped: either it cannot be answered or it does not matter."""
MOST_OPEN_SHOWN: Final = 20
_REQUESTS: Final = cast(Table, InvestigationRequest.__table__)


@dataclass(frozen=True)
class Wanted:
    """What is lacking, as a query has it."""

    objective: str
    reasoning: str
    search_hints: tuple[str, ...] = ()


@dataclass(frozen=True)
class Open:
    """A request that waits for an answer."""

    id: UUID
    iteration_number: int
    objective: str
    created_at: datetime


async def make(
    session: AsyncSession, agent_id: UUID, iteration_id: UUID, step_id: UUID, wanted: Wanted
) -> UUID:
    """The request's id, which follows from the step and the objective: the same one made twice is one."""
    objective = " ".join(wanted.objective.split())
    request_id = ids.investigation_request_id(step_id, objective.casefold())
    number = select(Iteration.number).where(Iteration.id == iteration_id).scalar_subquery()
    await session.execute(
        insert(InvestigationRequest)
        .values(
            id=request_id,
            agent_id=agent_id,
            iteration_id=iteration_id,
            iteration_number=number,
            step_id=step_id,
            objective=objective,
            reasoning=wanted.reasoning,
            search_hints=list(wanted.search_hints),
        )
        .on_conflict_do_nothing()
    )
    return request_id


async def count_of_step(session: AsyncSession, step_id: UUID) -> int:
    of_step = select(func.count()).where(InvestigationRequest.step_id == step_id)
    return await session.scalar(of_step) or 0


async def of_iteration(session: AsyncSession, iteration_id: UUID) -> Sequence[InvestigationRequest]:
    """All that this iteration's Analyzers lacked, in the order in which they said so."""
    found = await session.scalars(
        select(InvestigationRequest)
        .where(InvestigationRequest.iteration_id == iteration_id)
        .order_by(InvestigationRequest.created_at, InvestigationRequest.id)
    )
    return found.all()


def open_of(agent_id: UUID) -> Asked[Sequence[Open]]:
    """Those that wait for an answer, the newest first; of several with the same objective the newest alone."""
    return Asked(_OPEN, {"of_agent": agent_id}, _newest)


def _newest(rows: Iterable[Row]) -> Sequence[Open]:
    by_objective: dict[str, Open] = {}
    for row in rows:
        by_objective.setdefault(row.objective.casefold(), Open(*row))
    return list(by_objective.values())[:MOST_OPEN_SHOWN]


async def answer(
    session: AsyncSession, agent_id: UUID, request_ids: Collection[UUID], *, by: UUID
) -> None:
    """Notes that the query `by` answered them, and with them every open one of the same objective.

    Rows are locked in the order of their ids: two queries may answer the same.
    """
    same = select(func.lower(InvestigationRequest.objective)).where(
        InvestigationRequest.agent_id == agent_id, InvestigationRequest.id.in_(request_ids)
    )
    answered = (
        select(InvestigationRequest.id)
        .where(_is_open(agent_id), func.lower(InvestigationRequest.objective).in_(same))
        .order_by(InvestigationRequest.id)
        .with_for_update()
    )
    await session.execute(
        update(InvestigationRequest)
        .where(InvestigationRequest.id.in_(list(await session.scalars(answered))))
        .values(answered_at=func.clock_timestamp(), answered_by=by)
        .execution_options(synchronize_session=False)
    )


async def drop_old(session: AsyncSession, agent_id: UUID, number: int) -> None:
    """Drops what has been open since OPEN_FOR_ITERATIONS before iteration `number`.

    Rows are locked in the order of their ids, as they are where queries answer them.
    """
    await _DROP.run(session, {"of_agent": agent_id, "last": number - OPEN_FOR_ITERATIONS})


def _is_open(agent_id: ColumnElement[UUID] | UUID) -> ColumnElement[bool]:
    return and_(
        InvestigationRequest.agent_id == agent_id,
        InvestigationRequest.answered_at.is_(None),
        InvestigationRequest.dropped_at.is_(None),
    )


_OF_AGENT: Final = bindparam("of_agent", type_=Uuid)
_NUMBER: Final = (
    select(func.max(Iteration.number)).where(Iteration.agent_id == _OF_AGENT).scalar_subquery()
)
_OPEN: Final = Direct(
    select(
        InvestigationRequest.id,
        InvestigationRequest.iteration_number,
        InvestigationRequest.objective,
        InvestigationRequest.created_at,
    )
    .where(
        _is_open(_OF_AGENT), InvestigationRequest.iteration_number > _NUMBER - OPEN_FOR_ITERATIONS
    )
    .order_by(InvestigationRequest.created_at.desc(), InvestigationRequest.id)
    # Some may ask for the same.
    .limit(2 * MOST_OPEN_SHOWN)
)
_OLD: Final = (
    select(InvestigationRequest.id)
    .where(_is_open(_OF_AGENT), InvestigationRequest.iteration_number <= bindparam("last"))
    .order_by(InvestigationRequest.id)
    .with_for_update()
    .cte("old")
)
_DROP: Final = Direct(
    update(_REQUESTS)
    .where(_REQUESTS.c.id.in_(select(_OLD.c.id)))
    .values(dropped_at=func.clock_timestamp())
)
