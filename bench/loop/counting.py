"""What PostgreSQL does for an iteration: round trips, statements, foreign-key checks, lock waits, WAL by table.

Counting costs time, so it has a run of its own, on a server with pg_stat_statements.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import psycopg

from bench.loop.driver import Driver
from bench.loop.environment import DATABASE, Environment
from bench.loop.service_pool import ServicePool
from bench.loop.trips import trips_in

ALONE: Final = 20
"""Iterations one after another."""
LOAD_SECONDS: Final = 8.0
SAMPLE_SECONDS: Final = 0.005
_FOREIGN_KEY_CHECK: Final = "SELECT % FROM ONLY % FOR KEY SHARE OF x"
_STATEMENTS: Final = """
select coalesce(sum(calls) filter (where toplevel and not is_check and query <> 'SELECT close_graph_journal()'), 0)
    as statements,
  coalesce(sum(calls) filter (where is_check), 0) as checks
from pg_stat_statements join pg_database on pg_database.oid = dbid
cross join lateral (select query ilike %s as is_check) as kind
where datname = %s
"""
"""Counts the statements that services send, and the checks of foreign keys.

pg_stat_statements lists the checks and the trigger that run at a commit as statements too; those are not counted as such.
"""
_WAL_BY_TABLE: Final = """
with blocks as (
  select relfilenode, sum((record_length - images)::numeric / blocks_of_record) as bytes
  from (
    select relfilenode, record_length, count(*) over record as blocks_of_record,
      sum(block_fpi_length) over record as images
    from pg_get_wal_block_info(%s, %s)
    window record as (partition by start_lsn)
  ) as block
  group by relfilenode
)
select coalesce(parent.relname, owner.relname) as name, sum(blocks.bytes)::float as bytes
from blocks join pg_class as relation on pg_relation_filenode(relation.oid) = blocks.relfilenode
left join pg_index on pg_index.indexrelid = relation.oid
join pg_class as owner on owner.oid = coalesce(pg_index.indrelid, relation.oid)
left join pg_class as parent on parent.reltoastrelid = owner.oid
group by 1 order by 2 desc
"""
_WAITING: Final = (
    "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = %s"
)


@dataclass(frozen=True)
class Counts:
    """Counts of one iteration."""

    trips: float
    statements: float
    checks: float
    lock_wait_seconds: float
    wal_bytes: Mapping[str, float]
    """By table, with its indexes and long values, and without images of whole pages, which follow a checkpoint."""


@dataclass(frozen=True)
class Counted:
    alone: Counts
    load: Counts


async def count(place: Environment, agents: Sequence[UUID]) -> Counted:
    """Count some iterations of one agent, and some of all. Restarts PostgreSQL."""
    with psycopg.connect(place.postgres.dsn, autocommit=True) as operator:
        operator.execute("alter system set shared_preload_libraries = 'pg_stat_statements'")
        operator.execute("alter system set pg_stat_statements.track = 'all'")
    place.postgres.stop()
    place.postgres.start()
    for file in place.home.glob("*.trips"):
        file.unlink()
    pool = ServicePool(place.settings, place.home, counts_trips=True)
    async with Driver.open(place.settings) as driver:
        with pool.running(), _Counter(place) as counter:
            for _ in range(5):
                await driver.run(agents[0])
            await counter.start()
            for _ in range(ALONE):
                await driver.run(agents[0])
            alone = await counter.stop(ALONE)
            await counter.start()
            ended = time.monotonic() + LOAD_SECONDS

            async def run_again_and_again(agent_id: UUID) -> int:
                runs = 0
                while time.monotonic() < ended:
                    await driver.run(agent_id)
                    runs += 1
                return runs

            runs = sum(await asyncio.gather(*map(run_again_and_again, agents)))
            load = await counter.stop(runs)
    return Counted(alone, load)


class _Counter:
    def __init__(self, place: Environment) -> None:
        self._place = place

    def __enter__(self) -> "_Counter":
        self._operator = psycopg.connect(self._place.postgres.dsn, autocommit=True)
        self._inside = psycopg.connect(self._place.postgres.url(DATABASE), autocommit=True)
        self._operator.execute("create extension if not exists pg_stat_statements")
        self._operator.execute("create extension if not exists pg_walinspect")
        self._inside.execute("create extension if not exists pg_walinspect")
        return self

    def __exit__(self, *_: object) -> None:
        self._operator.close()
        self._inside.close()

    async def start(self) -> None:
        self._trips = trips_in(self._place.home)
        self._fetch("select pg_stat_statements_reset()")
        self._wal_at = self._fetch("select pg_current_wal_insert_lsn()")[0]
        self._sampler = asyncio.create_task(asyncio.to_thread(self._sample_waits))
        self._is_sampling = True
        self._waiting_seconds = 0.0

    async def stop(self, iterations: int) -> Counts:
        self._is_sampling = False
        await self._sampler
        trips = trips_in(self._place.home) - self._trips
        statements, checks = self._fetch(_STATEMENTS, _FOREIGN_KEY_CHECK, DATABASE)
        wal_end = self._fetch("select pg_current_wal_flush_lsn()")[0]
        wal = self._inside.execute(_WAL_BY_TABLE, (self._wal_at, wal_end)).fetchall()
        return Counts(
            trips / iterations,
            float(statements) / iterations,
            float(checks) / iterations,
            self._waiting_seconds / iterations,
            {name: size / iterations for name, size in wal},
        )

    def _sample_waits(self) -> None:
        with psycopg.connect(self._place.postgres.dsn, autocommit=True) as connection:
            last = time.monotonic()
            while self._is_sampling:
                time.sleep(SAMPLE_SECONDS)
                row = connection.execute(_WAITING, (DATABASE,)).fetchone()
                assert row is not None
                now = time.monotonic()
                self._waiting_seconds += row[0] * (now - last)
                last = now

    def _fetch(self, query: str, *params: Any) -> tuple[Any, ...]:
        row = self._operator.execute(query.encode(), params).fetchone()
        assert row is not None
        return row
