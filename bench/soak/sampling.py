"""Looks at an installation from outside: processes by the kernel, tables by PostgreSQL, queues by NATS."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import psutil
import psycopg
from nats.js import JetStreamContext
from psycopg.rows import DictRow, dict_row

from bench.soak.sample import Held, Queue, Sample, Stream, Table, Work
from shared.events.topology import STREAM
from shared.runtime.connections import bus_of
from shared.runtime.settings import Settings

Pids = Callable[[], Iterable[tuple[str, int]]]

_TABLES: Final = """
select relname, pg_total_relation_size(relid) as bytes, n_live_tup as live_rows, n_dead_tup as dead_rows,
    autovacuum_count as autovacuums
from pg_stat_user_tables where schemaname = 'public'"""
_WORK: Final = """
select * from (
    select count(*) as started,
        count(*) filter (where status = 'completed') as completed,
        count(*) filter (where status = 'failed') as failed,
        count(*) filter (where jsonb_array_length(errors) > 0) as with_errors,
        count(*) filter (where status = 'running') as running,
        count(*) filter (where ended_at is not null and end_told_at is null) as untold
    from iterations) of_iterations, (
    select count(*) filter (where status in ('pending', 'running')) as open_steps,
        count(*) filter (where status = 'running' and lease_until < clock_timestamp()) as lapsed_leases,
        count(*) filter (where status = 'failed') as failed_steps,
        coalesce(sum(resends), 0)::int as resends
    from steps) of_steps, (
    select (select count(*) from dead_letters) as dead_letters,
        (select count(*) from graph_nodes) as nodes,
        (select count(*) from graph_edges) as edges,
        (select count(*) from graph_merges) as merges,
        (select avg(octet_length(text))::float from contexts
            where created_at > %(since)s and created_at <= %(until)s) as context_bytes) of_graphs"""
_SECONDS: Final = """
select extract(epoch from ended_at - started_at)::float as seconds from iterations
where status = 'completed' and ended_at > %(since)s and ended_at <= %(until)s order by ended_at"""


class Sampler:
    def __init__(
        self,
        pids: Pids,
        connection: psycopg.AsyncConnection[DictRow],
        jetstream: JetStreamContext,
    ) -> None:
        self._pids = pids
        self._connection = connection
        self._jetstream = jetstream
        self._since: Any = None

    @classmethod
    @asynccontextmanager
    async def of(cls, settings: Settings, pids: Pids) -> "AsyncIterator[Sampler]":
        """`pids` tells whom to look at, by name; those they have started are looked at with them."""
        bus = bus_of(settings, "bench")
        await bus.connect()
        try:
            async with await psycopg.AsyncConnection.connect(
                settings.database_url, autocommit=True, row_factory=dict_row
            ) as connection:
                sampler = cls(pids, connection, bus.jetstream)
                sampler._since = await sampler._now()
                yield sampler
        finally:
            await bus.close()

    async def take(self, at_seconds: float) -> Sample:
        """Raises whatever keeps it from seeing all of it: a process that is gone, an engine that does not answer."""
        processes = await asyncio.to_thread(
            lambda: {name: held_by(name, pid) for name, pid in self._pids()}
        )
        span = {"since": self._since, "until": await self._now()}
        tables = await self._rows(_TABLES)
        (work,) = await self._rows(_WORK, span)
        seconds = await self._rows(_SECONDS, span)
        (wal,) = await self._rows("select sum(size)::bigint as bytes from pg_ls_waldir()")
        sample = Sample(
            at_seconds,
            processes,
            {row.pop("relname"): Table(**row) for row in tables},
            await self._streams(),
            await self._queues(),
            wal["bytes"],
            Work(**work),
            [row["seconds"] for row in seconds],
        )
        self._since = span["until"]
        return sample

    async def _streams(self) -> Mapping[str, Stream]:
        found = await self._jetstream.streams_info()
        return {
            str(each.config.name): Stream(each.state.messages, each.state.bytes) for each in found
        }

    async def _queues(self) -> Mapping[str, Queue]:
        found = await self._jetstream.consumers_info(STREAM)
        return {
            each.name: Queue(
                each.num_pending or 0, each.num_ack_pending or 0, each.num_redelivered or 0
            )
            for each in found
            if each.config.durable_name  # another is of somebody who looks on
        }

    async def _now(self) -> Any:
        (row,) = await self._rows("select clock_timestamp() as now")
        return row["now"]

    async def _rows(self, query: str, given: Mapping[str, Any] | None = None) -> list[DictRow]:
        cursor = await self._connection.execute(query.encode(), given)
        return await cursor.fetchall()


def held_by(name: str, pid: int) -> Held:
    """Raises psutil.NoSuchProcess where it has ended; of those that it has started, some may."""
    top = psutil.Process(pid)
    if top.status() == psutil.STATUS_ZOMBIE:  # it would count as one that holds nothing
        raise psutil.NoSuchProcess(pid, name)
    held = [_held_by_one(top)]
    for child in top.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            held.append(_held_by_one(child))
    return Held(
        sum(each.rss_bytes for each in held),
        sum(each.pss_bytes for each in held),
        sum(each.private_bytes for each in held),
        len(held),
        sum(each.files for each in held),
        sum(each.seconds for each in held) + _seconds_of_ended(top),
    )


def _held_by_one(process: psutil.Process) -> Held:
    memory, times = process.memory_full_info(), process.cpu_times()
    seconds = times.user + times.system
    return Held(memory.rss, memory.pss, memory.uss, 1, process.num_fds(), seconds)


def _seconds_of_ended(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.children_user + times.children_system)
