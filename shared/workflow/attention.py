"""Agents whose iterations fail or have no result: the reason, the start, and the growth of their interval meanwhile.

Derived from the newest iterations. Only the notice to the owner is stored, one for each episode.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from shared.billing.budgets import SUSPENSION_WORDS
from shared.database.statements import BoundQuery, CompiledStatement, Row, uuid_array
from shared.durations import format_duration
from shared.enums import InboxKind, IterationStatus, NoticeCause, StepKind, StepStatus

FAILURES: Final = 2
"""Number of consecutive failed iterations after which an agent needs attention."""
FRUITLESS: Final = 3
"""Number of consecutive iterations without a result, failed ones included, after which an agent needs attention."""
MAX_BACKOFF_SECONDS: Final = 86_400
_NEWEST: Final = 200
_COUNTED: Final = 20
"""Maximum number of newest iterations that count, without quiet ones."""
OTHER_ERROR: Final = f'$[*] ? (!(@ like_regex "{SUSPENSION_WORDS}" flag "q"))'
"""An error of an iteration that is not a stop by a daily budget."""
WAITING: Final = "waiting"
"""Key of the result of an observe step that planned nothing: the number of news items and open requests that wait."""
_RESULT: Final = "$ ? (@.nodes > 0 || @.edges > 0 || @.analyses.size() > 0 || @.advice.size() > 0)"


def streak_sql(agent: str) -> str:
    """A query of one row about the iterations without a result since the last one that had one, for the id `agent`.

    Left out are quiet iterations, those that a budget stopped, and running ones: during an outage of a provider, steps
    wait. An iteration that planned nothing works, unless the graph is empty, or news or requests wait: `waiting` is their
    number in the newest iteration. A failed one works if a retry of a step had a result after its end.
    """
    return f"""
select cast(count(*) as integer) as iterations, min(started_at) as since, max(started_at) as last_started_at,
  (array_agg(errors order by number desc))[1] as errors, (array_agg(waiting order by number desc))[1] as waiting,
  count(*) >= {FAILURES} and bool_and(is_failed) filter (where place <= {FAILURES}) as is_failing,
  count(*) >= {FRUITLESS}
    or count(*) >= {FAILURES} and bool_and(is_failed) filter (where place <= {FAILURES}) as needs_attention
from (
  select worked.*, row_number() over newest as place, bool_or(is_good) over newest as is_over
  from (
    select number, started_at, errors, waiting, status = '{IterationStatus.FAILED}' as is_failed,
      case status when '{IterationStatus.FAILED}' then has_late_result
        else has_result
          or not is_planned and waiting = 0 and exists (select from graph_nodes where graph_nodes.agent_id = {agent})
        end as is_good
    from (
      select * from (
        select id, number, status, errors, started_at, ended_at from iterations
        where agent_id = {agent} order by number desc limit {_NEWEST}
      ) as newest
      where status in ('{IterationStatus.FAILED}', '{IterationStatus.COMPLETED}')
      order by number desc limit {_COUNTED}
    ) as ended
    cross join lateral (
      select coalesce(bool_or(has_result), false) as has_result,
        coalesce(bool_or(has_result and steps.ended_at > ended.ended_at), false) as has_late_result,
        coalesce(bool_or(kind <> '{StepKind.OBSERVE}'), false) as is_planned,
        coalesce(max(cast(result ->> '{WAITING}' as integer)), 0) as waiting
      from (
        select *, status = '{StepStatus.COMPLETED}' and jsonb_path_exists(result, '{_RESULT}') as has_result
        from steps where iteration_id = ended.id
      ) as steps
    ) as work
    where has_result or errors = '[]' or jsonb_path_exists(errors, '{OTHER_ERROR}')
  ) as worked
  window newest as (order by number desc)
) as streak
where not is_over"""


NEEDS_ATTENTION: Final = (
    f"(select needs_attention from ({streak_sql('agents.id')}) as streak) is true"
)
"""The condition, for statements on `agents`."""
_COUNT_MARK: Final = "{count}"
_FIND: Final = CompiledStatement(f"""
select agent.id, streak.iterations, streak.since, streak.errors, streak.is_failing, streak.waiting
from unnest(cast(:agents as uuid[])) as agent (id) cross join lateral ({streak_sql("agent.id")}) as streak
where streak.needs_attention
""")
_LOCK: Final = CompiledStatement("select from agents where id = :of_agent for no key update")
_RECORD: Final = CompiledStatement(f"""
with streak as materialized (
  {streak_sql("cast(:of_agent as uuid)")}
),
notified as (
  insert into inbox_items (id, owner_id, agent_id, kind, cause, title, summary)
  select gen_random_uuid(), owner_id, agents.id, '{InboxKind.NOTICE}', '{NoticeCause.ATTENTION}',
    agents.name || ' needs attention', case when is_failing then :failing when waiting > 0
      then replace(:idle, '{_COUNT_MARK}', cast(waiting as text)) else :fruitless end
  from streak, agents where agents.id = :of_agent and needs_attention and not exists (
    select from inbox_items
    where agent_id = :of_agent and cause = '{NoticeCause.ATTENTION}' and resolved_at is null)
),
resolved as (
  update inbox_items
  set resolved_at = clock_timestamp(), read_at = coalesce(read_at, clock_timestamp())
  from streak where agent_id = :of_agent and cause = '{NoticeCause.ATTENTION}' and resolved_at is null
    and not needs_attention
  returning agent_id
)
update agents set next_run_at = case when needs_attention
  then greatest(next_run_at, last_started_at + make_interval(secs => greatest(interval_seconds, least({MAX_BACKOFF_SECONDS},
    interval_seconds * power(2, 1 + iterations - case when is_failing then {FAILURES} else {FRUITLESS} end)))))
  else least(next_run_at, clock_timestamp() + make_interval(secs => interval_seconds)) end
from streak
where agents.id = :of_agent and (needs_attention or exists (select from resolved))
""")


@dataclass(frozen=True)
class Attention:
    """Why an agent needs the attention of its owner."""

    iterations: int
    """Number of newest iterations without a result; at most 20 are counted."""
    since: datetime
    """Start of the first of them."""
    reason: str
    advice: str


def find(agent_ids: Collection[UUID]) -> BoundQuery[Mapping[UUID, Attention]]:
    """Returns the agents among these that need attention."""

    def read(rows: Sequence[Row]) -> Mapping[UUID, Attention]:
        return {
            row.id: Attention(
                row.iterations,
                row.since,
                *_explain(row.iterations, row.errors, row.is_failing, row.waiting),
            )
            for row in rows
        }

    return BoundQuery(_FIND, {"agents": uuid_array(agent_ids)}, read)


def lock_agent(agent_id: UUID) -> BoundQuery[None]:
    """Locks the agent's row for `record_end`. Executed before the iteration is changed: deletions lock in this order."""
    return BoundQuery(_LOCK, {"of_agent": agent_id}, lambda _: None)


def record_end(agent_id: UUID, errors: Sequence[str]) -> BoundQuery[None]:
    """Updates the next run and the notice of an agent after the end of an iteration, which had these errors. Idempotent.

    To be executed after `lock_agent` in the same transaction, so that an episode has one notice.
    """
    params = {
        "of_agent": agent_id,
        "failing": " ".join(_explain(FAILURES, errors, is_failing=True)),
        "fruitless": " ".join(_explain(FRUITLESS, errors, is_failing=False)),
        "idle": " ".join(_explain(FRUITLESS, errors, is_failing=False, waiting=_COUNT_MARK)),
    }
    return BoundQuery(_RECORD, params, lambda _: None)


def _explain(
    iterations: int, errors: Sequence[str], is_failing: bool, waiting: int | str = 0
) -> tuple[str, str]:
    """Reason and advice, in sentences. `waiting`: the number of items for which the newest iteration planned nothing."""
    count = f"at least {iterations}" if iterations == _COUNTED else str(iterations)
    error = f" The error was: {errors[0].rstrip('.')}." if errors else ""
    until = (
        "Run the agent now or change its settings: it tries at once. Until an iteration works, it runs less often, at "
        f"intervals of up to {format_duration(MAX_BACKOFF_SECONDS)}."
    )
    if is_failing:
        return (
            f"The last {count} iterations failed.{error}",
            f"Correct what the error names. {until}",
        )
    items = "item waits" if waiting == 1 else "items wait"
    idle = f" The last one planned nothing although {waiting} {items}." if waiting else ""
    return (
        f"The last {count} iterations wrote nothing to the graph.{idle}{error}",
        "Describe the mission more precisely, prefer domains that publish about it, or choose another model. "
        + until,
    )
