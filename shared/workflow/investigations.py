"""Investigation requests: created by Analyzers, open until a query answers them or they expire."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, cast
from uuid import UUID

from sqlalchemy import ColumnElement, Table, Uuid, and_, bindparam, func, select, update
from sqlalchemy.dialects.postgresql import insert

from shared.database import ids
from shared.database.statements import (
    ANY_OF_IDS,
    BoundQuery,
    CompiledStatement,
    Row,
    uuid_array,
)
from shared.database.tables import InvestigationRequest, Iteration

OPEN_FOR_ITERATIONS: Final = 10
"""Requests that are open for longer are dropped: they cannot be answered, or do not matter."""
MAX_OPEN_SHOWN: Final = 20
_REQUESTS: Final = cast(Table, InvestigationRequest.__table__)
_COUNT: Final = CompiledStatement(
    select(func.count()).where(_REQUESTS.c.step_id == bindparam("of_step"))
)
_OF_ITERATION: Final = CompiledStatement(
    select(_REQUESTS)
    .where(_REQUESTS.c.iteration_id == bindparam("of_iteration"))
    .order_by(_REQUESTS.c.created_at, _REQUESTS.c.id)
)


@dataclass(frozen=True)
class MissingData:
    """Missing data, in the form of a query."""

    objective: str
    reasoning: str
    search_hints: tuple[str, ...] = ()


@dataclass(frozen=True)
class OpenRequest:
    """An open request."""

    id: UUID
    iteration_number: int
    objective: str
    created_at: datetime


def create_request(
    agent_id: UUID, iteration_id: UUID, step_id: UUID, missing: MissingData
) -> BoundQuery[UUID]:
    """Inserts a request and returns its id, which is derived from the step and the objective: repeating it has no
    effect.
    """
    objective = " ".join(missing.objective.split())
    request_id = ids.investigation_request_id(step_id, objective.casefold())
    params = {
        "id": request_id,
        "agent_id": agent_id,
        "iteration_id": iteration_id,
        "step_id": step_id,
        "objective": objective,
        "reasoning": missing.reasoning,
        "search_hints": list(missing.search_hints),
        "of_iteration": iteration_id,
    }
    return BoundQuery(_CREATE, params, lambda _: request_id)


def count_requests(step_id: UUID) -> BoundQuery[int]:
    return BoundQuery(_COUNT, {"of_step": step_id}, lambda rows: int(rows[0][0]))


def list_requests(iteration_id: UUID) -> BoundQuery[Sequence[InvestigationRequest]]:
    """All requests of this iteration's Analyzers, in order of creation."""
    return BoundQuery(
        _OF_ITERATION,
        {"of_iteration": iteration_id},
        lambda rows: [InvestigationRequest(**row._asdict()) for row in rows],
    )


def list_open_requests(agent_id: UUID) -> BoundQuery[Sequence[OpenRequest]]:
    """Open requests, newest first; only the newest of several with the same objective."""
    return BoundQuery(_OPEN, {"of_agent": agent_id}, _newest)


def _newest(rows: Iterable[Row]) -> Sequence[OpenRequest]:
    by_objective: dict[str, OpenRequest] = {}
    for row in rows:
        by_objective.setdefault(row.objective.casefold(), OpenRequest(*row))
    return list(by_objective.values())[:MAX_OPEN_SHOWN]


def mark_answered(agent_id: UUID, request_ids: Collection[UUID], *, by: UUID) -> BoundQuery[None]:
    """Records that the query step `by` answered the requests, and all open ones with the same objective.

    Rows are locked in id order, since two queries may answer the same requests.
    """
    params = {"of_agent": agent_id, "ids": uuid_array(request_ids), "by": by}
    return BoundQuery(_MARK_ANSWERED, params, lambda _: None)


def drop_expired(agent_id: UUID, number: int) -> BoundQuery[None]:
    """Drops requests that were opened OPEN_FOR_ITERATIONS or more before iteration `number`.

    Rows are locked in id order, as in `mark_answered`.
    """
    params = {"of_agent": agent_id, "last": number - OPEN_FOR_ITERATIONS}
    return BoundQuery(_DROP_OLD, params, lambda _: None)


def _is_open(agent_id: ColumnElement[UUID] | UUID) -> ColumnElement[bool]:
    return and_(
        InvestigationRequest.agent_id == agent_id,
        InvestigationRequest.answered_at.is_(None),
        InvestigationRequest.dropped_at.is_(None),
    )


_OF_AGENT: Final = bindparam("of_agent", type_=Uuid)
_NEWEST_NUMBER: Final = (
    select(func.max(Iteration.number)).where(Iteration.agent_id == _OF_AGENT).scalar_subquery()
)
_OPEN: Final = CompiledStatement(
    select(
        InvestigationRequest.id,
        InvestigationRequest.iteration_number,
        InvestigationRequest.objective,
        InvestigationRequest.created_at,
    )
    .where(
        _is_open(_OF_AGENT),
        InvestigationRequest.iteration_number > _NEWEST_NUMBER - OPEN_FOR_ITERATIONS,
    )
    .order_by(InvestigationRequest.created_at.desc(), InvestigationRequest.id)
    # Twice as many, since some may have the same objective.
    .limit(2 * MAX_OPEN_SHOWN)
)
_OLD_REQUESTS: Final = (
    select(InvestigationRequest.id)
    .where(_is_open(_OF_AGENT), InvestigationRequest.iteration_number <= bindparam("last"))
    .order_by(InvestigationRequest.id)
    .with_for_update()
    .cte("old")
)
_DROP_OLD: Final = CompiledStatement(
    update(_REQUESTS)
    .where(_REQUESTS.c.id.in_(select(_OLD_REQUESTS.c.id)))
    .values(dropped_at=func.clock_timestamp())
)
_CREATE: Final = CompiledStatement(
    insert(_REQUESTS)
    .values(
        iteration_number=select(Iteration.number)
        .where(Iteration.id == bindparam("of_iteration"))
        .scalar_subquery()
    )
    .on_conflict_do_nothing(),
    columns=("id", "agent_id", "iteration_id", "step_id", "objective", "reasoning", "search_hints"),
)
_SAME_OBJECTIVES: Final = (
    select(_REQUESTS.c.id)
    .where(
        _is_open(_OF_AGENT),
        func.lower(_REQUESTS.c.objective).in_(
            select(func.lower(_REQUESTS.c.objective)).where(
                _REQUESTS.c.agent_id == _OF_AGENT, _REQUESTS.c.id == ANY_OF_IDS
            )
        ),
    )
    .order_by(_REQUESTS.c.id)
    .with_for_update()
    .cte("same")
)
_MARK_ANSWERED: Final = CompiledStatement(
    update(_REQUESTS)
    .where(_REQUESTS.c.id.in_(select(_SAME_OBJECTIVES.c.id)))
    .values(answered_at=func.clock_timestamp(), answered_by=bindparam("by"))
)
