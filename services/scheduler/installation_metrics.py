"""Reads the state of the installation for monitoring, at most every few seconds."""

import asyncio
import time
from collections.abc import Callable
from math import nan
from pathlib import Path
from shutil import disk_usage
from typing import Final

from prometheus_client import CollectorRegistry

from shared.billing.reservations import INSTALLATION, TODAY
from shared.database.engine import Database
from shared.database.statements import BoundQuery, CompiledStatement
from shared.enums import AgentStatus, IterationStatus, StepKind, StepStatus
from shared.provider_limits.store import KNOWN_SECONDS
from shared.telemetry.metrics import PROVIDERS, InstallationGauges

CACHE_SECONDS: Final = 5.0
MIN_INTERVAL_SECONDS: Final = 60
"""Shorter intervals count as this long when an agent is late: an iteration takes time, too."""
NEWEST_ITERATIONS: Final = 5
"""Of an agent, among which one must have completed. Looking at few keeps the cost independent of a history of failures."""
NEAR_BUDGET: Final = 0.8

_ENDED_WELL: Final = f"('{IterationStatus.COMPLETED}', '{IterationStatus.QUIET}')"

# An interval may have grown while iterations were quiet: `next_run_at` tells. A change of the agent, such as its activation,
# and the end of a suspension start the time anew.
_STATE: Final = CompiledStatement(f"""
with open_step as materialized (
  select kind, status, requested_at, retry_at, waiting_since, started_at, lease_until,
    case when waiting_since is not null then lower(error) end as waits_for
  from steps where status in ('{StepStatus.PENDING}', '{StepStatus.RUNNING}')
), of_steps as (
  select count(*) filter (where status = '{StepStatus.RUNNING}' and lease_until >= statement_timestamp()) as leases_held,
    count(*) filter (where status = '{StepStatus.RUNNING}' and lease_until < statement_timestamp()) as leases_expired,
    statement_timestamp() - min(started_at) filter (where status = '{StepStatus.RUNNING}') as oldest_running,
    statement_timestamp() - min(requested_at) filter (
      where status = '{StepStatus.PENDING}' and waiting_since is null
        and coalesce(retry_at <= statement_timestamp(), true)) as oldest_waiting,
    count(waiting_since) as steps_waiting_for_provider,
    statement_timestamp() - min(waiting_since) as oldest_provider_wait
  from open_step
), of_agents as (
  select count(*) as active_agents,
    count(*) filter (where
      status = '{AgentStatus.READY}' and greatest(created_at, updated_at, suspended_until) < since
      and not exists (
        select from (
          select status, ended_at from iterations where agent_id = agents.id
          order by number desc limit {NEWEST_ITERATIONS}
        ) as newest where newest.status in {_ENDED_WELL} and newest.ended_at > since
      )) as late_agents,
    count(*) filter (where spent_usd >= {NEAR_BUDGET} * nullif(budget_usd_per_day, 0)
      or spent_calls >= {NEAR_BUDGET} * nullif(budget_calls_per_day, 0)) as agents_near_budget
  from agents
  left join budget_days on scope = agents.id and day = {TODAY}
  left join lateral (
    select started_at from iterations where agent_id = agents.id order by number desc limit 1
  ) as last on true
  cross join lateral (
    select statement_timestamp() - 2 * greatest(
      make_interval(secs => greatest(interval_seconds, {MIN_INTERVAL_SECONDS})), next_run_at - started_at) as since
  ) as limits
  where active
), of_budget as (
  select coalesce(spent_usd, 0) as budget_spent_usd, coalesce(reserved_usd, 0) as budget_reserved_usd,
    case when usd_per_day is not null then greatest(usd_per_day - coalesce(spent_usd + reserved_usd, 0), 0) end
      as budget_left_usd,
    case when calls_per_day is not null then greatest(calls_per_day - coalesce(spent_calls + reserved_calls, 0), 0) end
      as budget_left_calls,
    greatest(coalesce(spent_usd, 0) / nullif(usd_per_day, 0),
      coalesce(spent_calls, 0)::numeric / nullif(calls_per_day, 0)) as budget_used_ratio
  from (select true) as one
  left join installation_budget on true
  left join budget_days on scope = cast('{INSTALLATION}' as uuid) and day = {TODAY}
), of_provider as (
  -- The error of a step that waits names the provider.
  select kind, max(extract(epoch from statement_timestamp()) - cast(state ->> 'unavailable_since' as numeric)) as seconds
  from provider_limits
  where updated_at > statement_timestamp() - make_interval(secs => {KNOWN_SECONDS})
    and state ->> 'unavailable_since' is not null
    and exists (select from open_step where strpos(waits_for, lower(name)) > 0)
  group by kind
), of_deliveries as (
  select count(*) as pending_deliveries, statement_timestamp() - min(created_at) as oldest_delivery
  from deliveries where status = 'pending'
)
select
  (select coalesce(jsonb_object_agg(kind, number), '{{}}')
    from (select kind, count(*) as number from open_step group by kind) as of_kind) as open_steps,
  (select coalesce(jsonb_object_agg(kind, seconds), '{{}}') from of_provider) as provider_outages,
  (select count(*) from dead_letters) as dead_letters,
  (select count(*) from iterations where status = '{IterationStatus.RUNNING}') as running_iterations,
  leases_held, leases_expired,
  coalesce(extract(epoch from oldest_running), 0) as oldest_running_step_seconds,
  coalesce(extract(epoch from oldest_waiting), 0) as oldest_waiting_step_seconds,
  steps_waiting_for_provider,
  coalesce(extract(epoch from oldest_provider_wait), 0) as oldest_provider_wait_seconds,
  active_agents, late_agents, agents_near_budget,
  budget_spent_usd, budget_reserved_usd, budget_left_usd, budget_left_calls, budget_used_ratio,
  pending_deliveries, coalesce(extract(epoch from oldest_delivery), 0) as oldest_pending_delivery_seconds,
  pg_database_size(current_database()) as database_size_bytes
from of_steps, of_agents, of_budget, of_deliveries
""")


class InstallationMetrics:
    """The gauges of the installation, for the scheduler's `/metrics`. Schedulers that run at the same time read the same."""

    def __init__(
        self,
        database: Database,
        data_directory: Path | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._data_directory = data_directory
        self._clock = clock
        self._fresh_until = -1.0
        self._reading: asyncio.Task[None] | None = None
        self._gauges = InstallationGauges(clock)

    @property
    def registry(self) -> CollectorRegistry:
        return self._gauges.registry

    async def refresh(self) -> None:
        """Reads the gauges, unless they were just read.

        Raises TransientError while PostgreSQL is unavailable. They then keep their values.
        """
        self._measure_disk()
        if self._reading is None or self._reading.done():
            if self._clock() < self._fresh_until:
                return
            self._reading = asyncio.create_task(self._read())
        # Scrapes at the same time wait for one reading. One that takes longer than a scrape waits is used by a later one.
        await asyncio.shield(self._reading)

    async def _read(self) -> None:
        row = await self._database.run(BoundQuery(_STATE, {}, lambda rows: rows[0]))
        open_steps: dict[str, int] = {kind: row.open_steps.get(kind, 0) for kind in StepKind}
        outages = {provider: float(row.provider_outages.get(provider, 0)) for provider in PROVIDERS}
        self._gauges.set_state(row._asdict(), open_steps, outages)
        self._fresh_until = self._clock() + CACHE_SECONDS

    def _measure_disk(self) -> None:
        try:
            usage = None if self._data_directory is None else disk_usage(self._data_directory)
        except OSError:
            usage = None
        free_bytes, size_bytes = (nan, nan) if usage is None else (usage.free, usage.total)
        self._gauges.set_disk(free_bytes, size_bytes)
