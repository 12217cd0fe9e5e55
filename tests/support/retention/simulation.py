"""Days of iterations, each followed by the passes of the pruner, with the time given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg
from sqlalchemy import func, select, text

from services.scheduler.pruner import Pruner
from shared.agents import agents
from shared.billing.reservations import INSTALLATION
from shared.database.engine import Database, with_login
from shared.database.ids import iteration_id
from shared.database.tables import Base, Source
from shared.database.transaction import Transaction
from shared.enums import RetentionKind
from shared.graph.provenance.sources import store_pages
from shared.graph.scope import GraphScope
from shared.graph.verification.verifier import MAX_PAGE_ROWS, check_page
from shared.tools import Json
from shared.workflow.retention import DESCRIPTIONS, RetentionPolicy

SCHEMA: Final = "recorded"
TABLES: Final = (
    "iterations",
    "steps",
    "llm_interactions",
    "calls",
    "contexts",
    "pinned_contexts",
)
"""In the order in which they are written."""
_OF_ITERATION: Final = {
    "iterations": "row.id = iteration.id",
    "contexts": (
        "row.agent_id = iteration.agent_id and row.created_at >= iteration.started_at"
        " and row.created_at <= iteration.ended_at"
    ),
}
_RECORD_ITERATIONS: Final = f"""
create table {SCHEMA}.chosen as
select row_number() over (order by number) - 1 as k, * from (
  select id, agent_id, number, started_at, ended_at from iterations
  where agent_id = '{{agent}}' and status = 'completed' order by number desc limit {{many}}
) as newest
"""
_COLUMNS: Final = text("""
select table_name, column_name, data_type from information_schema.columns
where table_schema = 'public' and table_name = any(:tables) order by table_name, ordinal_position
""")
_COUNT: Final = text("""
update agents set iterations_started = iterations_started + :many where id = :agent returning iterations_started - :many
""")
# As its calls have been paid for.
_SPEND: Final = text(f"""
insert into budget_days (scope, day, spent_usd, spent_calls)
select scope, cast(:day as date), coalesce(sum(coalesce(cost_usd, 0) + assumed_usd), 0), count(*)
from unnest(array[cast(:agent as uuid), '{INSTALLATION}']) as scope
cross join unnest(cast(:ks as int[])) as each (k) join {SCHEMA}.calls using (k)
group by scope
on conflict (scope, day) do update
set spent_usd = budget_days.spent_usd + excluded.spent_usd, spent_calls = budget_days.spent_calls + excluded.spent_calls
""")


@dataclass(frozen=True)
class Template:
    """Iterations that were recorded from an agent of the database, in a schema of their own."""

    many: int
    copies: Mapping[str, Any]
    """By table, the statement that copies the rows of several iterations."""

    @classmethod
    async def record(cls, database: Database, agent_id: UUID, many: int) -> "Template":
        """The newest completed iterations of the agent, at most `many`."""
        async with database.transaction() as session:
            await session.execute(text(f"create schema {SCHEMA}"))
            await session.execute(text(_RECORD_ITERATIONS.format(agent=agent_id, many=many)))
            for table in TABLES:
                condition = _OF_ITERATION.get(table, "row.iteration_id = iteration.id")
                await session.execute(
                    text(
                        f"create table {SCHEMA}.{table} as select iteration.k, iteration.started_at as begun_at, row.*"
                        f" from {SCHEMA}.chosen as iteration join {table} as row on {condition}"
                    )
                )
                await session.execute(text(f"create index on {SCHEMA}.{table} (k)"))
            found = await session.scalar(text(f"select count(*) from {SCHEMA}.chosen"))
            assert found, "no iteration was completed"
            columns: dict[str, list[tuple[str, str]]] = {}
            for row in await session.execute(_COLUMNS, {"tables": list(TABLES)}):
                columns.setdefault(row.table_name, []).append((row.column_name, row.data_type))
        return cls(found, {table: text(_copy_sql(table, columns[table])) for table in TABLES})

    async def copy(
        self, session: Transaction, agent_id: UUID, started_at: Sequence[datetime]
    ) -> None:
        """Iterations of the agent that began at these times, all on one day (UTC)."""
        many = len(started_at)
        first = await session.scalar(_COUNT, {"agent": agent_id, "many": many})
        assert first is not None
        numbers = range(first + 1, first + 1 + many)
        params = {
            "agent": agent_id,
            "numbers": list(numbers),
            "ks": [number % self.many for number in numbers],
            "cycles": [number // self.many for number in numbers],
            "times": list(started_at),
            "iterations": [iteration_id(agent_id, number) for number in numbers],
        }
        for table in TABLES:
            await session.execute(self.copies[table], params)
        of_day = {"agent": agent_id, "day": started_at[0].date(), "ks": params["ks"]}
        await session.execute(_SPEND, of_day)


def _copy_sql(table: str, columns: Sequence[tuple[str, str]]) -> str:
    names = ", ".join(name for name, _ in columns)
    values = ", ".join(_value_sql(table, name, kind) for name, kind in columns)
    return f"""
insert into {table} ({names})
select {values}
from unnest(cast(:numbers as int[]), cast(:ks as int[]), cast(:cycles as int[]), cast(:times as timestamptz[]),
    cast(:iterations as uuid[])) as place (number, k, cycle, started_at, iteration_id)
join {SCHEMA}.{table} as recorded using (k)
on conflict do nothing
"""


def _value_sql(table: str, name: str, kind: str) -> str:
    if name == ("id" if table == "iterations" else "iteration_id"):
        return "place.iteration_id"
    match name, kind:
        case "agent_id", _:
            return "cast(:agent as uuid)"
        case "number", _:
            return "place.number"
        case "transcripts_deleted_at", _:
            return "null"
        case "base_sha256", _:
            # The first one of a recorded chain is a difference from one that was not recorded.
            return (
                f"case when exists (select from {SCHEMA}.contexts as base where base.sha256 = recorded.base_sha256)"
                f" then {_hash_sql(name)} end"
            )
        case (("sha256" | "context_sha256"), _):
            return _hash_sql(name)
        case _, "uuid":
            return (
                f"cast(md5(recorded.{name}::text || cast(:agent as text) || place.cycle) as uuid)"
            )
        case _, "timestamp with time zone":
            return f"recorded.{name} - recorded.begun_at + place.started_at"
        case _:
            return f"recorded.{name}"


def _hash_sql(name: str) -> str:
    return f"sha256(recorded.{name} || convert_to(cast(:agent as text) || place.cycle, 'UTF8'))"


VACUUM_DAYS: Final = 2
"""With the shipped settings, autovacuum runs when a twentieth of the rows is dead: of 30 or 45 days, about that often."""
PAGES_PER_ITERATION: Final = 3
PRUNED_TABLES: Final = sorted(
    {name for described in DESCRIPTIONS.values() for name in described.tables}
)
_OTHER_ROWS: Final = (
    """
insert into inbox_items (id, owner_id, agent_id, kind, title, summary, dispatched_at, created_at)
select gen_random_uuid(), owner_id, id, 'notice', 'Half of the budget is spent', repeat('It is so. ', 20), :at, :at
from agents where id = :agent
""",
    """
insert into deliveries (id, destination_id, inbox_item_id, status, next_attempt_at, give_up_at, created_at, ended_at)
select gen_random_uuid(), destinations.id, inbox_items.id, 'delivered', :at, :at, :at, :at
from destinations join inbox_items using (owner_id) where inbox_items.agent_id = :agent and inbox_items.created_at = :at
""",
    """
insert into investigation_requests (id, agent_id, iteration_number, objective, reasoning, created_at, answered_at)
select gen_random_uuid(), :agent, 1, repeat('What is it? ', 5), repeat('It lacked. ', 20), :at, :at
from generate_series(1, 2)
""",
    """
insert into dead_letters (id, service, subject, payload, code, error, attempts, created_at, stored_at)
values (gen_random_uuid(), 'observer', 'iteration.started', repeat('x', 400)::bytea, 'unreadable_event', 'What?', 1,
  :at, :at)
""",
)
"""Of one day and agent."""


@dataclass
class Simulation:
    """Agents that each run some iterations a day."""

    database: Database
    url: str
    template: Template
    policy: RetentionPolicy
    agents: Sequence[GraphScope]
    pages: Sequence[Json]
    started_at: datetime
    sizes: dict[int, Mapping[str, int]] = field(default_factory=dict)
    """By day, the bytes of each table with its indexes."""
    row_sizes: dict[int, Mapping[str, int]] = field(default_factory=dict)
    """The same without indexes."""
    index_sizes: dict[int, Mapping[tuple[str, str], int]] = field(default_factory=dict)
    """By day, the bytes of each index, by table and name."""
    real_days: list[datetime] = field(default_factory=list)
    """When each day was simulated: pages are stored with the time of the database, which their seals cover."""
    pruned: dict[RetentionKind, int] = field(default_factory=dict)

    @classmethod
    async def begin(
        cls,
        database: Database,
        url: str,
        recorded_agent: UUID,
        *,
        policy: RetentionPolicy,
        count: int,
        days: int,
        recorded: int,
    ) -> "Simulation":
        template = await Template.record(database, recorded_agent, recorded)
        async with database.transaction() as session:
            now: datetime = (await session.execute(select(func.clock_timestamp()))).scalar_one()
            found = await session.execute(
                select(Source.url, Source.title, Source.text).where(
                    Source.agent_id == recorded_agent
                )
            )
            pages = [{"url": row.url, "title": row.title, "content": row.text} for row in found]
            owner_id = await agents.ensure_user(session, f"owner of {uuid4()}")
            scopes = []
            for number in range(count):
                agent = await agents.create_agent(
                    session,
                    owner_id,
                    name=f"Year {number}",
                    mission="",
                    interval_seconds=3600,
                    active=False,
                )
                scopes.append(GraphScope(owner_id, agent.id))
            await session.execute(
                text(
                    "insert into destinations (id, owner_id, kind, address)"
                    " values (gen_random_uuid(), :owner, 'mail', 'a@b.c')"
                ),
                {"owner": owner_id},
            )
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        return cls(database, url, template, policy, scopes, pages, midnight - timedelta(days=days))

    async def run_day(self, day: int, iterations: int) -> None:
        """Run the iterations of all agents, then prune as at the end of the day."""
        begin = self.started_at + timedelta(days=day)
        self.real_days.append(await self._real_time())
        step = timedelta(days=1) / iterations
        for scope in self.agents:
            for number in range(iterations):
                await self._read_pages(scope, f"{day}.{number}")
            async with self.database.transaction() as session:
                await self.template.copy(
                    session, scope.agent_id, [begin + step * number for number in range(iterations)]
                )
                for statement in _OTHER_ROWS:
                    named = text(statement)
                    params = {"agent": scope.agent_id, "at": begin}
                    wanted = named.compile().params
                    await session.execute(named, {name: params[name] for name in wanted})
        await self._prune(begin + timedelta(days=1))
        if day % VACUUM_DAYS == 0:
            self._vacuum()

    async def measure(self, day: int) -> None:
        self._vacuum()
        async with self.database.snapshot() as session:
            found = await session.execute(
                text(
                    "select relname, pg_total_relation_size(relid) as size, pg_table_size(relid) as row_size"
                    " from pg_stat_user_tables where schemaname = 'public'"
                )
            )
            rows = [row for row in found if row.relname in Base.metadata.tables]
            indexes = await session.execute(
                text(
                    "select relname, indexrelname, pg_relation_size(indexrelid) as size from pg_stat_user_indexes"
                    " where schemaname = 'public'"
                )
            )
        self.index_sizes[day] = {(row.relname, row.indexrelname): row.size for row in indexes}
        self.sizes[day] = {row.relname: row.size for row in rows}
        self.row_sizes[day] = {row.relname: row.row_size for row in rows}

    async def find_faults(self) -> list[str]:
        """What `vigil verify --all` reports of each agent."""
        faults: list[str] = []
        for scope in self.agents:
            cursor: str | None = None
            while True:
                async with self.database.snapshot() as session:
                    page = await check_page(session, scope, cursor=cursor, rows=MAX_PAGE_ROWS)
                faults += [f"{fault.link} {fault.name}: {fault.message}" for fault in page.breaks]
                cursor = page.next
                if cursor is None:
                    break
        return faults

    async def _real_time(self) -> datetime:
        async with self.database.transaction() as session:
            now: datetime = (await session.execute(select(func.clock_timestamp()))).scalar_one()
            return now

    async def _read_pages(self, scope: GraphScope, name: str) -> None:
        results = []
        for place in range(PAGES_PER_ITERATION):
            page = self.pages[place % len(self.pages)]
            results.append({**page, "url": f"{page['url']}?{name}.{place}"})
        async with self.database.transaction() as session:
            await store_pages(session, scope, {"results": results})

    async def _prune(self, now: datetime) -> None:
        pruner = Pruner(self.database, self.policy, pause_seconds=0, pass_seconds=3600)
        for kind in RetentionKind:
            at: datetime | None = now
            if kind is RetentionKind.PAGES:
                at = self._real_time_of_pages()
            if at is not None:
                self.pruned[kind] = self.pruned.get(kind, 0) + await pruner.prune(kind, at)

    def _real_time_of_pages(self) -> datetime | None:
        """When pages of the age limit were stored, plus that age; None while all are younger."""
        age = self.policy.ages.get(RetentionKind.PAGES)
        if age is None or len(self.real_days) <= age.days:
            return None
        return self.real_days[-age.days] + age

    def _vacuum(self) -> None:
        url = with_login(self.url, role=None, password=None)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"vacuum {', '.join(PRUNED_TABLES)}")
