"""The statements of the pruner. A batch runs several of them in one transaction, in the order of this file."""

from typing import Final

from sqlalchemy import text

from shared.database.tables.billing import PART_COLUMNS
from shared.enums import (
    DeliveryStatus,
    InboxKind,
    IterationStatus,
    RetentionKind,
    StepKind,
    StepStatus,
)
from shared.graph.scope import retraction_lock_key_sql

_LOCK: Final = 0x7669_7072
"""Any fixed number."""
NOW: Final = text("select statement_timestamp()")
TRY_LOCK: Final = text(f"select pg_try_advisory_xact_lock({_LOCK})")
SHARE_AGENT: Final = text("select id from agents where id = :agent for key share skip locked")
"""An agent that is being deleted is skipped."""
STOP_AGENT: Final = text("select id from agents where id = :agent for no key update skip locked")
"""No iteration of the agent is started until the transaction ends."""

# Passes -------------------------------------------------------------------------------------------------------------

REGISTER: Final = text("""
insert into retention (kind, days, max_bytes) values (:kind, :days, :max_bytes)
on conflict (kind) do update set days = excluded.days, max_bytes = excluded.max_bytes
where (retention.days, retention.max_bytes) is distinct from (excluded.days, excluded.max_bytes)
""")
# A time that is farther away than the interval was noted before the setting, or the clock, was changed.
CLAIM: Final = text("""
update retention
set next_at = statement_timestamp() + make_interval(secs => :every), started_at = statement_timestamp()
where kind = :kind and (days is not null or max_bytes is not null)
  and (next_at <= statement_timestamp() or next_at > statement_timestamp() + make_interval(secs => :every))
returning kind
""")
NOTE_PASS: Final = text("""
update retention
set last_rows = :rows, all_rows = all_rows + :rows, ended_at = statement_timestamp(),
  oldest_at = cast(:oldest_at as timestamptz), bytes = cast(:bytes as bigint),
  pruned_at = case when :rows > 0 then statement_timestamp() else pruned_at end,
  next_at = case when :is_whole then next_at else statement_timestamp() end
where kind = :kind
""")

# Iterations ---------------------------------------------------------------------------------------------------------

# What a step that was retried after its end needs, or one whose retry is requested, is not old.
_HAS_OPEN_STATUS: Final = f"status in ('{StepStatus.PENDING}', '{StepStatus.RUNNING}')"
_IS_RETRIED: Final = "coalesce(retry_requested_at > ended_at, retry_requested_at is not null)"
_IS_OPEN: Final = f"({_HAS_OPEN_STATUS} or {_IS_RETRIED})"
_HAS_ENDED: Final = f"""(iterations.status <> '{IterationStatus.RUNNING}' and iterations.ended_at < :before
  and iterations.end_published_at is not null)"""
_HAS_TEXTS: Final = (
    f"(transcripts_deleted_at is null and iterations.status <> '{IterationStatus.QUIET}')"
)
_IS_DISPENSABLE: Final = f"""(
  iterations.number <= (select iterations_started from agents where id = iterations.agent_id) - :kept
  and (iterations.status = '{IterationStatus.QUIET}' or iterations.number < (
    select number from iterations as newer
    where newer.agent_id = iterations.agent_id
      and newer.status not in ('{IterationStatus.QUIET}', '{IterationStatus.RUNNING}')
    order by number desc offset :kept_working - 1 limit 1)))"""
_OLD: Final = {
    RetentionKind.TRANSCRIPTS: f"{_HAS_ENDED} and {_HAS_TEXTS}",
    RetentionKind.ITERATIONS: f"{_HAS_ENDED} and {_IS_DISPENSABLE}",
}
_OLD_RUNS_SQL: Final = f"""
from steps
where steps.agent_id = {{agent}} and iteration_id is null and ended_at < :before and not {_IS_OPEN}
  and exists (select from llm_interactions where step_id = steps.id)
  and not exists (select from dead_letters where step_id = steps.id)
  and not exists (select from calls where step_id = steps.id and reserved_on is not null)
"""
AGENTS: Final = {
    RetentionKind.TRANSCRIPTS: text(f"""
select id from agents
where exists (select from iterations where agent_id = agents.id and {_OLD[RetentionKind.TRANSCRIPTS]})
  or exists (select {_OLD_RUNS_SQL.format(agent="agents.id")})
order by id
"""),
    RetentionKind.ITERATIONS: text(f"""
select id from agents
where exists (select from iterations where agent_id = agents.id and {_OLD[RetentionKind.ITERATIONS]})
order by id
"""),
    RetentionKind.CONTEXTS: text("""
select id from agents where exists (select from contexts where agent_id = agents.id and created_at < :before) order by id
"""),
    RetentionKind.PAGES: text("""
select id from agents where exists (select from sources where agent_id = agents.id and fetched_at < :before) order by id
"""),
}
"""Agents that may have something old."""

LOCK_ITERATIONS: Final = {
    kind: text(f"""
select id, number from iterations
where agent_id = :agent and number > :after and {is_old}
order by number limit :most for update skip locked
""")
    for kind, is_old in _OLD.items()
}
LOCK_STEPS: Final = text(f"""
select iteration_id, ({_IS_OPEN} or coalesce(ended_at >= :before, false)) as is_open from steps
where iteration_id = any(cast(:ids as uuid[])) order by id for update skip locked
""")
"""A step that was retried has calls that are newer than the end of its iteration."""
COUNT_STEPS: Final = text("""
select iteration_id, count(*) as steps, bool_or(
    exists (select from dead_letters where step_id = steps.id)
    or exists (select from calls where calls.step_id = steps.id and reserved_on is not null)
  ) as is_needed
from steps where iteration_id = any(cast(:ids as uuid[])) group by iteration_id
""")
"""After the steps are locked, so that no other transaction can add to what it finds."""

DELETE_TEXTS: Final = text("""
with of_calls as (
  update calls set answer = null, events = '[]', failures = '[]' where iteration_id = any(cast(:ids as uuid[]))
), of_runs as (
  update llm_interactions
  set system_prompt = '', request = '{}', message = null, context_sha256 = null
  where iteration_id = any(cast(:ids as uuid[])) returning id
), unpinned as (
  -- A step that is retried pins the context that it builds.
  delete from pinned_contexts where iteration_id = any(cast(:ids as uuid[]))
), marked as (
  update iterations set transcripts_deleted_at = statement_timestamp() where id = any(cast(:ids as uuid[]))
)
select count(*) from of_runs
""")
_SUMS: Final = (
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "reasoning_tokens",
    *PART_COLUMNS,
    "cost_usd",
    "assumed_usd",
)
_COUNTS: Final = ("calls", "answered", "attempts", "unpriced", "answered_unpriced")
_SUM_CALLS: Final = f"""
insert into call_days (agent_id, day, kind, phase, model, {", ".join((*_COUNTS, *_SUMS))})
select agent_id, cast(started_at at time zone 'UTC' as date), kind, phase, coalesce(model, ''),
  count(*), count(answered_at), sum(attempts), count(*) filter (where kind = 'llm' and cost_usd is null),
  count(answered_at) filter (where kind = 'llm' and cost_usd is null),
  {", ".join(f"coalesce(sum({name}), 0)" for name in _SUMS)}
from gone group by 1, 2, 3, 4, 5
on conflict (agent_id, day, kind, phase, model) do update
set {", ".join(f"{name} = call_days.{name} + excluded.{name}" for name in (*_COUNTS, *_SUMS))}
"""


def _delete_calls(column: str) -> str:
    return f"""
with gone as (
  delete from calls where {column} = any(cast(:ids as uuid[])) and reserved_on is null
  returning agent_id, kind, phase, model, started_at, answered_at, attempts, {", ".join(_SUMS)}
), summed as ({_SUM_CALLS})
select count(*) from gone
"""


DELETE_CALLS: Final = text(_delete_calls("iteration_id"))
"""Each call is added to the sum of its day by the statement that deletes it."""
KEEP_INSIGHTS: Final = text(f"""
insert into kept_insights (agent_id, step_id, input)
select agent_id, id, jsonb_build_object(
    'observation', input -> 'observation', 'synthesis_direction', input -> 'synthesis_direction')
from steps
where iteration_id = any(cast(:ids as uuid[])) and kind = '{StepKind.INSIGHT}'
  and jsonb_path_exists(result, '$.analyses[*]')
on conflict do nothing
""")
"""What analyses were asked for, which the Observer compares new insights with."""
DELETE_ITERATIONS: Final = text("delete from iterations where id = any(cast(:ids as uuid[]))")
"""With their steps and phase runs."""
DELETE_NEWS: Final = text("delete from news_items where agent_id = :agent and decided_at < :before")
"""Items that are decided are not offered again. Those of kept iterations stay."""
NOTE_ITERATIONS: Final = text("""
insert into pruned_iterations as known (agent_id, numbers, transcripts, calls)
select :agent, case when :is_deleted then of_numbers else '{}' end,
  case when :is_deleted then '{}' else of_numbers end, :calls
from (
  select coalesce(range_agg(int4range(number, number, '[]')), '{}') as of_numbers
  from unnest(cast(:numbers as int[])) as each (number)
) as these
on conflict (agent_id) do update
set numbers = known.numbers + excluded.numbers,
  transcripts = known.transcripts + excluded.transcripts - (known.numbers + excluded.numbers),
  calls = known.calls + excluded.calls, updated_at = clock_timestamp()
""")
"""What the journal of the graph covers, so that verification knows what was deleted by Vigil."""

# Phase runs of conversations and configurations ---------------------------------------------------------------------

LOCK_LONE_STEPS: Final = text(
    f"select id {_OLD_RUNS_SQL.format(agent=':agent')} order by id limit :most for update skip locked"
)
DELETE_LONE_CALLS: Final = text(_delete_calls("step_id"))
DELETE_LONE_RUNS: Final = text("""
with gone as (delete from llm_interactions where step_id = any(cast(:ids as uuid[])) returning id)
select count(*) from gone
""")

# Contexts -----------------------------------------------------------------------------------------------------------

UNNEEDED_CONTEXTS: Final = text("""
with recursive needed (sha256) as (
  select context_sha256 from llm_interactions where agent_id = :agent and context_sha256 is not null
  union
  select sha256 from pinned_contexts
  where agent_id = :agent and iteration_id in (select id from iterations where agent_id = :agent)
  union
  select sha256 from contexts where agent_id = :agent and created_at >= :before
  union
  select base_sha256 from needed join contexts using (sha256) where agent_id = :agent and base_sha256 is not null
)
-- Those that others are differences from come last.
select sha256 from contexts
where agent_id = :agent and created_at < :before and not exists (select from needed where needed.sha256 = contexts.sha256)
order by depth desc limit :most
""")
"""Reads all contexts and phase runs of the agent, so it is done once for many batches, and without a lock."""
LOCK_TIMEOUT: Final = text("set local lock_timeout = '200ms'")
LOCK_CONTEXTS: Final = text("lock table contexts in share row exclusive mode")
"""Waits for transactions that store a context, or a difference from one: each locks the table as a writer."""
_RETRIED_SQL: Final = (
    "select id, iteration_id from steps where agent_id = :agent and retry_requested_at is not null"
)
DELETE_CONTEXTS: Final = text(f"""
with recursive needed (sha256) as (
  select context_sha256 from llm_interactions
  where agent_id = :agent and created_at >= :since and context_sha256 is not null
  union
  select context_sha256 from llm_interactions
  where step_id in (select id from ({_RETRIED_SQL}) as retried) and context_sha256 is not null
  union
  select sha256 from pinned_contexts
  where iteration_id in (
    select id from iterations where agent_id = :agent and status = '{IterationStatus.RUNNING}'
    union all
    select iteration_id from ({_RETRIED_SQL}) as retried)
  union
  select sha256 from contexts where agent_id = :agent and created_at >= greatest(:since, :before)
  union
  select base_sha256 from needed join contexts using (sha256) where agent_id = :agent and base_sha256 is not null
), gone as (
  delete from contexts
  where agent_id = :agent and sha256 = any(cast(:unneeded as bytea[])) and sha256 not in (select sha256 from needed)
  returning sha256
)
select count(*) from gone
""")
"""What became needed since they were found: by phase runs that have started or were resumed since."""

# Pages --------------------------------------------------------------------------------------------------------------

LOCK_GRAPH: Final = text(f"""
select pg_try_advisory_xact_lock({retraction_lock_key_sql("agent")})
  and pg_try_advisory_xact_lock(hashtextextended('graph ' || cast(:agent as text), 0))
""")
"""No other transaction writes evidence, merges or retracts until the transaction ends."""
# By partial indexes: an agent has many steps, and few that are open.
IS_AT_WORK: Final = text(f"""
select exists (select from iterations where agent_id = :agent and status = '{IterationStatus.RUNNING}')
  or exists (select from steps where agent_id = :agent and {_HAS_OPEN_STATUS})
  or exists (select from steps where agent_id = :agent and retry_requested_at is not null and {_IS_RETRIED})
  or exists (select from dead_letters join steps on steps.id = step_id where agent_id = :agent)
""")
"""Whether a step may cite a page that it has read again, or a step that does may be retried."""
DELETE_PAGES: Final = text("""
with unneeded as (
  select id from sources
  where agent_id = :agent and fetched_at < :before and retracted_at is null
    and not exists (select from evidence where source_id = sources.id)
    and not exists (select from doubts where source_id = sources.id)
    and not exists (select from conclusion_proofs where source_id = sources.id)
    and not exists (select from retracted_sources where source_id = sources.id)
    and not exists (select from retractions where source_id = sources.id)
    -- Evidence that comes back when a merge is undone.
    and cast(id as text) not in (
      select each #>> '{}'
      from graph_merges cross join jsonb_path_query(journal, '$.**.source_id') as each
      -- A property of a node may have the same name, and no value.
      where agent_id = :agent and undone_at is null and each #>> '{}' is not null)
  order by fetched_at limit :most
), gone as (
  delete from sources where id in (select id from unneeded) returning id
)
select count(*) from gone
""")

# Other tables -------------------------------------------------------------------------------------------------------

_OLD_ROWS: Final = {
    RetentionKind.DELIVERIES: (
        "deliveries",
        f"status in ('{DeliveryStatus.DELIVERED}', '{DeliveryStatus.FAILED}') and ended_at < :before"
        " and not coalesce(retry_requested_at > ended_at, false)",
    ),
    RetentionKind.NOTICES: (
        "inbox_items",
        f"kind = '{InboxKind.NOTICE}' and created_at < :before and dispatched_at is not null"
        " and coalesce(snoozed_until < :before, true)"
        " and not exists (select from deliveries where inbox_item_id = inbox_items.id)",
    ),
    RetentionKind.REQUESTS: (
        "investigation_requests",
        "greatest(answered_at, not_found_at, dropped_at) < :before"
        " and not (answered_at is null and dropped_at is null and coalesce(reopened_at > not_found_at, false))",
    ),
    RetentionKind.DEAD_LETTERS: (
        "dead_letters",
        "stored_at < :before and not coalesce(retry_requested_at > stored_at, false)",
    ),
}
DELETE_ROWS: Final = {
    # The condition is evaluated again if a row was changed meanwhile.
    kind: text(f"""
with gone as (
  delete from {table}
  where id in (select id from {table} where {is_old} limit :most) and {is_old}
  returning id
)
select count(*) from gone
""")
    for kind, (table, is_old) in _OLD_ROWS.items()
}

MEASURE: Final = text(
    "select retained_bytes(:kind)"
    f" + case when :kind = '{RetentionKind.ITERATIONS}' then news_bytes() else 0 end"
)
"""The stored bytes of the rows, without indexes and free space; of large tables, by a sample."""
_TIMES: Final = {
    RetentionKind.TRANSCRIPTS: f"""
select ended_at as at from iterations where {_HAS_TEXTS}
union all
select ended_at from steps
where iteration_id is null and exists (select from llm_interactions where step_id = steps.id)""",
    RetentionKind.ITERATIONS: "select ended_at as at from iterations",
    RetentionKind.CONTEXTS: "select created_at as at from contexts",
    RetentionKind.PAGES: "select fetched_at as at from sources",
    RetentionKind.DELIVERIES: "select ended_at as at from deliveries",
    RetentionKind.NOTICES: f"select created_at as at from inbox_items where kind = '{InboxKind.NOTICE}'",
    RetentionKind.REQUESTS: "select greatest(answered_at, not_found_at, dropped_at) as at from investigation_requests",
    RetentionKind.DEAD_LETTERS: "select stored_at as at from dead_letters",
}
OLDEST_SHARE: Final = {
    kind: text(
        "select percentile_disc(cast(:share as float)) within group (order by at) + interval '1 microsecond'"
        f" from ({times}) as each"
    )
    for kind, times in _TIMES.items()
}
"""The time before which that share of the rows is from."""

OLDEST: Final = {
    RetentionKind.TRANSCRIPTS: text(f"""
select min(at) from agents cross join lateral (
  select started_at as at from iterations where agent_id = agents.id and {_HAS_TEXTS} order by number limit 1
) as first
"""),
    RetentionKind.ITERATIONS: text("""
select min(at) from agents cross join lateral (
  select started_at as at from iterations where agent_id = agents.id order by number limit 1
) as first
"""),
    RetentionKind.CONTEXTS: text("select min(created_at) from contexts"),
    RetentionKind.PAGES: text("""
select min(at) from agents cross join lateral (
  select fetched_at as at from sources where agent_id = agents.id order by fetched_at limit 1
) as first
"""),
    RetentionKind.DELIVERIES: text("select min(created_at) from deliveries"),
    RetentionKind.NOTICES: text(
        f"select min(created_at) from inbox_items where kind = '{InboxKind.NOTICE}'"
    ),
    RetentionKind.REQUESTS: text("select min(created_at) from investigation_requests"),
    RetentionKind.DEAD_LETTERS: text("select min(stored_at) from dead_letters"),
}
