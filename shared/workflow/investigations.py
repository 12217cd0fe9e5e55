"""Investigation requests: created by Analyzers, open until a query answers them or they expire."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from shared.database import ids
from shared.database.statements import BoundQuery, CompiledStatement, Row, json_text, uuid_array
from shared.database.tables import InvestigationRequest

OPEN_FOR_ITERATIONS: Final = 10
"""Requests that are open for longer are dropped: they cannot be answered, or do not matter."""
MAX_OPEN_SHOWN: Final = 20


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
        "search_hints": json_text(missing.search_hints),
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


_CREATE: Final = CompiledStatement("""
insert into investigation_requests
  (id, agent_id, iteration_id, iteration_number, step_id, objective, reasoning, search_hints)
values (:id, :agent_id, :iteration_id, (select number from iterations where id = :iteration_id),
  :step_id, :objective, :reasoning, cast(:search_hints as jsonb))
on conflict do nothing
""")
_COUNT: Final = CompiledStatement(
    "select count(*) from investigation_requests where step_id = :of_step"
)
# By name, because a later release may have added columns.
_COLUMNS: Final = ", ".join(InvestigationRequest.__table__.columns.keys())
_OF_ITERATION: Final = CompiledStatement(f"""
select {_COLUMNS} from investigation_requests
where iteration_id = :of_iteration order by created_at, id
""")
_IS_OPEN: Final = "agent_id = :of_agent and answered_at is null and dropped_at is null"
# The limit is twice as many as are shown, since some may have the same objective.
_OPEN: Final = CompiledStatement(f"""
select id, iteration_number, objective, created_at from investigation_requests
where {_IS_OPEN} and iteration_number >
  (select max(number) from iterations where agent_id = :of_agent) - {OPEN_FOR_ITERATIONS}
order by created_at desc, id limit {2 * MAX_OPEN_SHOWN}
""")
_DROP_OLD: Final = CompiledStatement(f"""
with old as (
  select id from investigation_requests
  where {_IS_OPEN} and iteration_number <= :last order by id for update
)
update investigation_requests set dropped_at = clock_timestamp() where id in (select id from old)
""")
_MARK_ANSWERED: Final = CompiledStatement(f"""
with same as (
  select id from investigation_requests
  where {_IS_OPEN} and lower(objective) in (
    select lower(objective) from investigation_requests
    where agent_id = :of_agent and id = any(cast(:ids as uuid[])))
  order by id for update
)
update investigation_requests set answered_at = clock_timestamp(), answered_by = :by
where id in (select id from same)
""")
