"""Investigation requests: created by Analyzers, open until a query answers them or finds no answer, or they
expire.

What a query answers while it says what is missing is answered in part: it has an answer, and the sentence beside it.

An agent has one request for equal questions. A repeated one refers to it, and opens it again if it expired, or if it was
answered, answered in part or not found a day ago or longer and the agent has stored a page since.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

from shared.database import ids
from shared.database.statements import BoundQuery, CompiledStatement, Row, json_text, uuid_array
from shared.enums import StepKind
from shared.workflow.agent_clock import shown_time_sql
from shared.workflow.questions import question_key

OPEN_FOR_ITERATIONS: Final = 10
"""Requests that are open for longer are dropped: they cannot be answered, or do not matter."""
MAX_OPEN_SHOWN: Final = 20
MAX_ELEMENTS: Final = 50
"""Nodes, and edges, that are recorded as an answer."""
MAX_NAMED: Final = 3
"""Nodes that a partial answer names in prompts."""
RETRY_AFTER: Final = timedelta(days=1)
"""Minimum time before a request that was answered or not found is opened again. Answers age: most requests are about what
changes.
"""


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
    opened_at: datetime
    repeated_by: tuple[UUID, ...] = ()
    """Other open requests for the same question, of versions that stored equal ones twice."""


@dataclass(frozen=True)
class NotFoundRequest:
    """A request that lacks its answer, or a part of it."""

    objective: str
    not_found_at: datetime
    not_found: str | None
    """The sentence of the model; None if it wrote none."""
    is_partial: bool = False
    answered_by: Sequence[str] = ()
    """Names of nodes that answer a part."""


class Answer(NamedTuple):
    """What answers a request."""

    nodes: Sequence[UUID] = ()
    edges: Sequence[UUID] = ()

    @property
    def as_json(self) -> dict[str, list[str]]:
        return {
            "nodes": [str(each) for each in self.nodes[:MAX_ELEMENTS]],
            "edges": [str(each) for each in self.edges[:MAX_ELEMENTS]],
        }


class Outstanding(NamedTuple):
    open: Sequence[OpenRequest]
    not_found: Sequence[NotFoundRequest]
    partial: Sequence[NotFoundRequest] = ()
    """Those that were answered in part."""


class Requested(NamedTuple):
    """The state of a request after it was made."""

    id: UUID
    answered_at: datetime | None
    answered_with: dict[str, list[str]] | None
    not_found_at: datetime | None
    not_found: str | None
    is_open: bool


class StoredRequest(NamedTuple):
    """A request of an iteration."""

    id: UUID
    step_id: UUID | None
    """The insight step that lacked it."""
    objective: str
    reasoning: str
    search_hints: Sequence[str]
    settled_at: datetime | None
    """When it was answered or not found. None if it is open, or was dropped without an answer."""


def request(
    agent_id: UUID, iteration_id: UUID, step_id: UUID, missing: MissingData
) -> BoundQuery[Requested]:
    """Inserts a request, or finds the agent's request for the same question. Idempotent."""
    objective = " ".join(missing.objective.split())
    params = {
        "id": request_id(agent_id, objective),
        "agent_id": agent_id,
        "of_agent": agent_id,
        "iteration_id": iteration_id,
        "step_id": step_id,
        "objective": objective,
        "reasoning": missing.reasoning,
        "search_hints": json_text(missing.search_hints),
    }
    return BoundQuery(_REQUEST, params, lambda rows: Requested(*rows[0]))


def request_id(agent_id: UUID, objective: str) -> UUID:
    """Derives the id of the agent's request for this question."""
    return ids.investigation_request_id(agent_id, question_key(objective))


def create_request(
    agent_id: UUID, iteration_id: UUID, step_id: UUID, missing: MissingData
) -> BoundQuery[UUID]:
    """Inserts a request as `request` does, and returns only its id."""
    query = request(agent_id, iteration_id, step_id, missing)
    return BoundQuery(query.statement, query.params, lambda rows: query.read(rows).id)


def count_requests(step_id: UUID) -> BoundQuery[int]:
    return BoundQuery(_COUNT, {"of_step": step_id}, lambda rows: int(rows[0][0]))


def list_requests(iteration_id: UUID) -> BoundQuery[Sequence[StoredRequest]]:
    """All requests of this iteration's Analyzers, in order of creation."""
    return BoundQuery(
        _OF_ITERATION,
        {"of_iteration": iteration_id},
        lambda rows: [StoredRequest(*row) for row in rows],
    )


def list_open_requests(agent_id: UUID) -> BoundQuery[Sequence[OpenRequest]]:
    """Open requests, newest first, one for each question."""
    return BoundQuery(_OPEN, {"of_agent": agent_id}, lambda rows: _join_equal(agent_id, rows))


def _join_equal(agent_id: UUID, rows: Sequence[Row]) -> Sequence[OpenRequest]:
    """Of requests for one question, the one that `request` finds stays, otherwise the newest."""
    by_id: dict[UUID, list[OpenRequest]] = {}
    for row in rows:
        opened = OpenRequest(*row[:4])
        by_id.setdefault(request_id(agent_id, opened.objective), []).append(opened)
    joined = []
    for own_id, (first, *others) in by_id.items():
        kept = next((each for each in others if each.id == own_id), first)
        repeated_by = tuple(each.id for each in (first, *others) if each is not kept)
        joined.append(replace(kept, repeated_by=repeated_by))
    return joined


def list_outstanding(agent_id: UUID) -> BoundQuery[Outstanding]:
    """Returns open requests, newest first, and those that were not found or answered in part, the latest first."""

    def read(rows: Sequence[Row]) -> Outstanding:
        incomplete = [
            NotFoundRequest(
                row.objective,
                row.not_found_at,
                row.not_found,
                row.is_partial,
                row.answered_by or (),
            )
            for row in rows
            if row.not_found_at is not None
        ]
        return Outstanding(
            _join_equal(agent_id, [row for row in rows if row.not_found_at is None]),
            [each for each in incomplete if not each.is_partial],
            [each for each in incomplete if each.is_partial],
        )

    return BoundQuery(_OUTSTANDING, {"of_agent": agent_id}, read)


def objectives_of(agent_id: UUID, request_ids: Collection[UUID]) -> BoundQuery[Mapping[UUID, str]]:
    """Returns the objectives of these requests by id, in the order of `request_ids`."""

    def read(rows: Sequence[Row]) -> Mapping[UUID, str]:
        objectives = {row.id: row.objective for row in rows}
        return {each: objectives[each] for each in request_ids if each in objectives}

    return BoundQuery(_OBJECTIVES, {"of_agent": agent_id, "ids": uuid_array(request_ids)}, read)


def mark_answered(
    agent_id: UUID,
    answers: Mapping[UUID, Answer],
    *,
    by: UUID,
    not_found: Mapping[UUID, str | None] | None = None,
    unanswered: Collection[UUID] = (),
) -> BoundQuery[None]:
    """Records that the query step `by` answered the requests with these elements, those of `not_found` in part.

    Rows are locked in id order, since two queries may answer the same requests. So are those of `unanswered`, which
    `mark_not_found` writes in the same transaction.
    """
    params = {
        "of_agent": agent_id,
        "ids": uuid_array(answers),
        "by": by,
        "answers": json_text({each.hex: answer.as_json for each, answer in answers.items()}),
        "not_found": json_text({each.hex: text for each, text in (not_found or {}).items()}),
        "unanswered": uuid_array(unanswered),
    }
    return BoundQuery(_MARK_ANSWERED, params, lambda _: None)


def mark_not_found(agent_id: UUID, not_found: Mapping[UUID, str | None]) -> BoundQuery[None]:
    """Records that no answer to the requests was found, each with the sentence of the model that says so, if it wrote one.

    Another query that answers them is not overruled. Rows are locked in id order, as in `mark_answered`.
    """
    outcomes = [{"id": each.hex, "not_found": text} for each, text in not_found.items()]
    params = {"of_agent": agent_id, "outcomes": json_text(outcomes)}
    return BoundQuery(_MARK_NOT_FOUND, params, lambda _: None)


def drop_expired(
    agent_id: UUID, number: int, repetitions: Collection[UUID] = ()
) -> BoundQuery[None]:
    """Drops requests that were opened OPEN_FOR_ITERATIONS or more before iteration `number`, and the open `repetitions`.

    Rows are locked in id order, as in `mark_answered`.
    """
    params = {
        "of_agent": agent_id,
        "last": number - OPEN_FOR_ITERATIONS,
        "repetitions": uuid_array(repetitions),
    }
    return BoundQuery(_DROP_OLD, params, lambda _: None)


_STATE: Final = "id, answered_at, answered_with, not_found_at, not_found"
# To an agent, nothing has happened after its now.
_SHOWN_STATE: Final = f"""id, {shown_time_sql("answered_at")} as answered_at, answered_with,
  {shown_time_sql("not_found_at")} as not_found_at, not_found"""
_IS_OPEN: Final = "answered_at is null and dropped_at is null and (not_found_at is null or reopened_at > not_found_at)"
_OPEN_OF_AGENT: Final = f"agent_id = :of_agent and {_IS_OPEN}"
_SETTLED_AT: Final = (
    "coalesce(known.answered_at,"
    " case when known.not_found_at > coalesce(known.reopened_at, '-infinity') then known.not_found_at end)"
)
# Nothing is left of what a query wrote: its pages were retracted, or it was deleted.
_LOST_ANSWER: Final = """(known.answered_with @? '$.*[*]'
    and not exists (
      select from graph_nodes where id in (
        select cast(jsonb_array_elements_text(known.answered_with -> 'nodes') as uuid)))
    and not exists (
      select from graph_edges where id in (
        select cast(jsonb_array_elements_text(known.answered_with -> 'edges') as uuid))))"""
_REQUEST: Final = CompiledStatement(f"""
with made as (
  insert into investigation_requests as known
    (id, agent_id, iteration_id, iteration_number, step_id, objective, reasoning, search_hints)
  values (:id, :agent_id, :iteration_id, (select number from iterations where id = :iteration_id),
    :step_id, :objective, :reasoning, cast(:search_hints as jsonb))
  on conflict (id) do update set
    iteration_id = excluded.iteration_id, iteration_number = excluded.iteration_number, step_id = excluded.step_id,
    reasoning = excluded.reasoning, search_hints = excluded.search_hints, dropped_at = null,
    reopened_at = clock_timestamp(), answered_at = null, answered_by = null, answered_with = null
  where known.dropped_at is not null or {_LOST_ANSWER}
    or {_SETTLED_AT} < statement_timestamp() - make_interval(secs => {RETRY_AFTER.total_seconds()})
      and exists (
        select from sources where agent_id = excluded.agent_id and fetched_at > {_SETTLED_AT})
  returning {_STATE}, true as is_open
)
select {_SHOWN_STATE}, is_open from made
union all
select {_SHOWN_STATE}, {_IS_OPEN} is true from investigation_requests
where id = :id and not exists (select from made)
""")
_COUNT: Final = CompiledStatement(
    "select count(*) from investigation_requests where step_id = :of_step"
)
_OF_ITERATION: Final = CompiledStatement(f"""
select id, step_id, objective, reasoning, search_hints, coalesce(answered_at,
  case when dropped_at is null and not_found_at >= coalesce(reopened_at, '-infinity') then not_found_at end)
from investigation_requests
where id in (
  select id from investigation_requests where iteration_id = :of_iteration
  union all
  select cast(request as uuid) from steps
  cross join lateral jsonb_array_elements_text(coalesce(result -> 'requests', '[]')) as request
  where steps.iteration_id = :of_iteration and kind = '{StepKind.INSIGHT}')
order by created_at, id
""")
_OPEN_SQL: Final = f"""
select id, iteration_number, objective, coalesce(reopened_at, created_at) as opened_at from investigation_requests
where {_OPEN_OF_AGENT} and iteration_number >
  (select max(number) from iterations where agent_id = :of_agent) - {OPEN_FOR_ITERATIONS}
order by opened_at desc, id limit {MAX_OPEN_SHOWN}
"""
_OPEN: Final = CompiledStatement(_OPEN_SQL)
_OUTSTANDING: Final = CompiledStatement(f"""
select id, iteration_number, objective, opened_at, cast(null as timestamptz) as not_found_at, null as not_found,
  false as is_partial, cast(null as text[]) as answered_by
from ({_OPEN_SQL}) as open
union all
select * from (
  select id, iteration_number, objective, created_at, {shown_time_sql("not_found_at")} as not_found_at, not_found,
    answered_at is not null,
    (select array_agg(name order by place) from jsonb_array_elements_text(
        case when answered_at is not null then answered_with -> 'nodes' end) with ordinality as answer (node_id, place)
      join graph_nodes as node on node.id = cast(node_id as uuid) and node.agent_id = :of_agent
      where place <= {MAX_NAMED})
  from investigation_requests
  where agent_id = :of_agent and (answered_at is null or not_found is not null) and dropped_at is null
    and not_found_at > coalesce(reopened_at, '-infinity')
  order by investigation_requests.not_found_at desc, id limit {MAX_OPEN_SHOWN}
) as incomplete
order by not_found_at desc nulls first, opened_at desc, id
""")
_OBJECTIVES: Final = CompiledStatement(
    "select id, objective from investigation_requests"
    " where agent_id = :of_agent and id = any(cast(:ids as uuid[]))"
)
_DROP_OLD: Final = CompiledStatement(f"""
with old as (
  select id from investigation_requests
  where {_OPEN_OF_AGENT} and (iteration_number <= :last or id = any(cast(:repetitions as uuid[])))
  order by id for update
)
update investigation_requests set dropped_at = clock_timestamp() where id in (select id from old)
""")
_MARK_ANSWERED: Final = CompiledStatement("""
with open as (
  select id from investigation_requests
  where agent_id = :of_agent and answered_at is null and dropped_at is null
    and id = any(cast(:ids as uuid[]) || cast(:unanswered as uuid[]))
  order by id for update
)
update investigation_requests
set answered_at = clock_timestamp(), answered_by = :by,
  answered_with = cast(:answers as jsonb) -> replace(cast(id as text), '-', ''),
  not_found = cast(:not_found as jsonb) ->> replace(cast(id as text), '-', ''),
  not_found_at = case when jsonb_exists(cast(:not_found as jsonb), replace(cast(id as text), '-', ''))
    then clock_timestamp() end
where id in (select id from open) and id = any(cast(:ids as uuid[]))
""")
_MARK_NOT_FOUND: Final = CompiledStatement("""
with outcome as (
  select id, not_found from jsonb_to_recordset(cast(:outcomes as jsonb)) as each (id uuid, not_found text)
), open as (
  select id from investigation_requests
  where agent_id = :of_agent and answered_at is null and dropped_at is null and id in (select id from outcome)
  order by id for update
)
update investigation_requests set not_found_at = clock_timestamp(), not_found = outcome.not_found
from outcome where investigation_requests.id = outcome.id and outcome.id in (select id from open)
""")
