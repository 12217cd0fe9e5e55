"""Whether an iteration has anything to do. If nothing is new and nothing is due, the model is not called."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any, Final, NamedTuple
from uuid import UUID

from services.observer.news_items import Item, StoredItem
from shared.database.statements import BoundQuery, CompiledStatement, Row
from shared.enums import (
    ADVICE_TYPE,
    ANALYSIS_TYPE,
    InboxKind,
    IterationStatus,
    NewsKind,
    NewsState,
    StepKind,
    StepStatus,
    WorkReason,
)
from shared.graph.scope import OWNED_AGENT_ID_SQL, GraphScope
from shared.workflow.agent_clock import NOW_SQL

RUN_NOW: Final = "run_now"
MAX_PAST: Final = 20
"""Iterations that are looked at, the newest first, without quiet ones."""
FREE_AT_FIRST: Final = 9
"""Iterations for OWN_REASONS that a new agent runs at consecutive ticks. Then the gap doubles with each further one."""
FREE_LATER: Final = 2
"""Iterations for OWN_REASONS that run at consecutive ticks after an iteration for another reason."""
MAX_ATTEMPTS: Final = 3
"""Iterations that may leave the graph empty before they count as fruitless."""
MAX_DUE: Final = 10
_JOURNAL_ENTRIES: Final = 200
"""Newest entries of the graph's journal that are looked at for changes by others."""

# `learned`: a query wrote evidence; writing the same again is none. `since` is when the newest of them began.
_SITUATION: Final = CompiledStatement(f"""
with past as materialized (
  select earlier.number, earlier.started_at, earlier.status, earlier.errors, earlier.observer_plan,
    (select result -> 'reasons' from steps where iteration_id = earlier.id and kind = '{StepKind.OBSERVE}') as reasons,
    coalesce(of_queries.searched, false) as searched, coalesce(of_queries.learned, false) as learned
  from iterations as this
  join iterations as earlier on earlier.agent_id = this.agent_id and earlier.number < this.number
  cross join lateral (
    select bool_or(status = '{StepStatus.COMPLETED}') as searched,
      bool_or(exists (select from evidence where evidence.step_id = steps.id)) as learned
    from steps where iteration_id = earlier.id and kind = '{StepKind.QUERY}'
  ) as of_queries
  where this.id = :of_iteration and this.agent_id = {OWNED_AGENT_ID_SQL} and earlier.status <> '{IterationStatus.QUIET}'
    -- One without a plan has seen nothing: what was to wake it still does.
    and exists (
      select from steps where iteration_id = earlier.id and kind = '{StepKind.OBSERVE}'
        and status = '{StepStatus.COMPLETED}')
  order by earlier.number desc limit {MAX_PAST}
), since as (
  select max(started_at) as at from past
), due as (
  select graph_nodes.name, properties ->> 'horizon' as horizon from graph_nodes, since
  where agent_id = {OWNED_AGENT_ID_SQL} and type in ('{ANALYSIS_TYPE}', '{ADVICE_TYPE}')
    and properties ->> 'horizon' >= cast(cast(since.at at time zone 'utc' as date) as text)
    and properties ->> 'horizon' < cast(cast({NOW_SQL} at time zone 'utc' as date) as text)
  order by 2, 1 limit {MAX_DUE}
)
select statement_timestamp() as now, this.why, this.number,
  coalesce((select jsonb_agg(past order by number desc) from past), '[]') as past,
  coalesce((select jsonb_agg(due) from due), '[]') as due,
  exists (
    select from validity_boundaries as boundary, since where boundary.agent_id = {OWNED_AGENT_ID_SQL}
      and moment > since.at and moment <= {NOW_SQL}
  ) as validity_changed,
  exists (
    select from agents, since where id = {OWNED_AGENT_ID_SQL} and updated_at > since.at
  ) or exists (
    select from memories, since where agent_id = {OWNED_AGENT_ID_SQL}
      and (created_at > since.at or forgotten_at > since.at)
  ) or exists (
    select from inbox_items, since where agent_id = {OWNED_AGENT_ID_SQL} and kind = '{InboxKind.ADVICE}'
      and answered_at > since.at
  ) or exists (
    select from since, (
      select written_at, step_id, writer from graph_journal
      where agent_id = {OWNED_AGENT_ID_SQL} order by seq desc limit {_JOURNAL_ENTRIES}
    ) as entry
    left join steps on steps.id = entry.step_id
    where entry.written_at > since.at and steps.iteration_id is null
      -- It deletes what is old, and changes no fact.
      and not starts_with(coalesce(entry.writer, ''), 'vigil-scheduler')
  ) as owner_acted,
  (select max_interval_seconds > interval_seconds from agents where id = {OWNED_AGENT_ID_SQL}) is true as interval_grows,
  exists (select from llm_interactions where step_id = :of_step) as is_resumed,
  coalesce((select jsonb_agg(item) from (
    select id, kind, url, title, published, found_at, state, reason, offers, plans, planned_in,
      exists (
        select from steps where iteration_id = planned_in and steps.kind = '{StepKind.QUERY}'
          and status = '{StepStatus.COMPLETED}' and jsonb_exists(result -> 'read', url)
      ) or exists (
        select from sources where sources.agent_id = news_items.agent_id
          and sources.url in (news_items.url, rtrim(news_items.url, '/')) and fetched_at > found_at
      ) as was_read
    from news_items where agent_id = {OWNED_AGENT_ID_SQL} and decided_at is null
  ) as item), '[]') as news
from iterations as this where id = :of_iteration
""")


# Ends the growth of the interval while iterations are quiet.
_END_GROWTH: Final = CompiledStatement(f"""
update agents set next_run_at = least(next_run_at,
  (select started_at from iterations where id = :of_iteration) + make_interval(secs => interval_seconds))
where id = {OWNED_AGENT_ID_SQL} and max_interval_seconds > interval_seconds
""")


OWN_REASONS: Final = frozenset(
    (
        WorkReason.FIRST,
        WorkReason.ERRORS,
        WorkReason.LEARNED,
        WorkReason.CONTINUED,
        WorkReason.DATA_REQUESTED,
        WorkReason.GRAPH_EMPTY,
    )
)
"""Reasons in the agent's own work. The others are outside it."""


class PastIteration(NamedTuple):
    """An earlier iteration that was not quiet."""

    number: int
    started_at: datetime
    is_own: bool = True
    """It worked for OWN_REASONS alone."""
    is_flawed: bool = False
    """It failed, or some of its steps did."""
    is_planned: bool = True
    """Its plan had queries or insights."""
    has_searched: bool = True
    has_learned: bool = False
    """Its queries wrote evidence that was not there before."""


@dataclass(frozen=True)
class Situation:
    """The facts that decide whether an iteration has anything to do."""

    why: str
    number: int
    now: datetime
    past: Sequence[PastIteration] = ()
    graph_is_empty: bool = False
    has_new_requests: bool = False
    """An analysis has asked for data since the newest of `past` began."""
    owner_acted: bool = False
    """The owner has changed the agent, its memories or its graph, or answered advice, since the newest of `past` began."""
    due: Sequence[str] = ()
    """A sentence for each horizon that has passed since then, and one if a validity has begun or ended."""
    interval_grows: bool = False
    """The interval may have grown, since earlier iterations were quiet."""
    news: Sequence[StoredItem] = ()
    """Items that are not decided."""
    is_resumed: bool = False
    """An interrupted worker has called the model for this iteration already."""

    def is_search_due(self, every: timedelta) -> bool:
        """Whether the last search is longer ago than `every`."""
        searched_at = [each.started_at for each in self.past if each.has_searched]
        return not searched_at or self.now - max(searched_at) >= every


def situation_query(scope: GraphScope) -> BoundQuery[Situation]:
    """Without `graph_is_empty` and `has_new_requests`, which the plan's history knows."""

    def read(rows: Sequence[Row]) -> Situation:
        (row,) = rows
        due = [f"{each['name']} has passed its horizon {each['horizon']}" for each in row.due]
        changed = ["facts have begun or ended to be valid"] if row.validity_changed else []
        return Situation(
            row.why,
            row.number,
            row.now,
            [_past(each) for each in row.past],
            owner_acted=row.owner_acted,
            due=[*due, *changed],
            interval_grows=row.interval_grows,
            news=[_stored_item(each) for each in row.news],
            is_resumed=row.is_resumed,
        )

    params = {**scope.sql_params, "of_iteration": scope.iteration_id, "of_step": scope.step_id}
    return BoundQuery(_SITUATION, params, read)


def _stored_item(row: dict[str, Any]) -> StoredItem:
    planned_in, published = row["planned_in"], row["published"]
    values = {
        **row,
        "id": UUID(row["id"]),
        "kind": NewsKind(row["kind"]),
        "state": NewsState(row["state"]),
        "found_at": datetime.fromisoformat(row["found_at"]),
        "published": None if published is None else datetime.fromisoformat(published),
        "planned_in": None if planned_in is None else UUID(planned_in),
    }
    was_read = values.pop("was_read")
    return StoredItem(Item(**values), was_read)


def shortest_interval(scope: GraphScope) -> BoundQuery[None]:
    """Moves the next run of an agent whose interval grows to the shortest interval after this iteration's start."""
    params = {**scope.sql_params, "of_iteration": scope.iteration_id}
    return BoundQuery(_END_GROWTH, params, lambda _: None)


def _past(row: dict[str, Any]) -> PastIteration:
    plan = row["observer_plan"] or {}
    reasons = row["reasons"] or ()
    return PastIteration(
        row["number"],
        datetime.fromisoformat(row["started_at"]),
        OWN_REASONS.issuperset(reasons),
        row["status"] == IterationStatus.FAILED or bool(row["errors"]),
        bool(plan.get("queries") or plan.get("insights")),
        row["searched"],
        row["learned"],
    )


def reasons_to_work(
    situation: Situation, *, search_every: timedelta, news: int
) -> list[WorkReason]:
    """Why the model is asked for a plan. Empty: the iteration is quiet.

    The graph, the mission and the world are as the last plan saw them, and that plan found nothing new: then another plan
    finds nothing either. `news` is the number of changed pages and new documents that no plan has seen, or that were
    planned and not read.

    Reasons in the agent's own work count ever more rarely while nothing else happens: an agent always finds more to learn,
    and the later it is found, the less it matters to the mission.
    """
    past = situation.past
    if not past:
        return [WorkReason.FIRST]
    outside = {
        WorkReason.RUN_REQUESTED: situation.why == RUN_NOW,
        WorkReason.RESUMED: situation.is_resumed,
        WorkReason.OWNER_ACTED: situation.owner_acted,
        WorkReason.SEARCH_DUE: situation.is_search_due(search_every),
        WorkReason.NEWS: news > 0,
        WorkReason.DUE: bool(situation.due),
    }
    own = {
        WorkReason.ERRORS: past[0].is_flawed,
        WorkReason.LEARNED: past[0].has_learned,
        WorkReason.CONTINUED: _may_continue(past),
        WorkReason.DATA_REQUESTED: situation.has_new_requests,
        WorkReason.GRAPH_EMPTY: situation.graph_is_empty and len(past) < MAX_ATTEMPTS,
    }
    reasons = [reason for reason, holds in outside.items() if holds]
    if reasons or situation.number - past[0].number >= _gap(past):
        reasons += [reason for reason, holds in own.items() if holds]
    return reasons


def _gap(past: Sequence[PastIteration]) -> int:
    """The number of ticks from the last iteration that worked to the next one for OWN_REASONS."""
    own = sum(1 for _ in takewhile(lambda each: each.is_own, past))
    is_new = own == len(past) and past[-1].number == 1
    free = FREE_AT_FIRST if is_new else FREE_LATER
    return int(2 ** max(own - free + 1, 0))


def _may_continue(past: Sequence[PastIteration]) -> bool:
    """Whether the last plan had something to do, and followed one that learned something: the first one after new facts
    may leave work for a second.
    """
    return past[0].is_planned and (len(past) == 1 or past[1].has_learned)
