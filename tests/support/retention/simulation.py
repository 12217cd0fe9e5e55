"""Days of iterations, each followed by the passes of the pruner, with the time given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID, uuid4

import psycopg
from sqlalchemy import func, select, text

from services.scheduler.pruner import Pruner
from shared.agents import agents
from shared.database.engine import Database, with_login
from shared.database.tables import Base, Source
from shared.enums import RetentionKind
from shared.graph.provenance.sources import store_pages
from shared.graph.scope import GraphScope
from shared.graph.verification.verifier import MAX_PAGE_ROWS, check_page
from shared.tools import Json
from shared.workflow.retention import DESCRIPTIONS, RetentionPolicy
from tests.support.retention.template import Template

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
