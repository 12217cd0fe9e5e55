"""Samples of an installation, taken from outside: processes (kernel), tables (PostgreSQL), queues (NATS)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from statistics import mean
from typing import Any, Final

import psutil
import psycopg
from nats.js import JetStreamContext
from psycopg.rows import DictRow, dict_row

from shared.agents.contexts import load_texts
from shared.database.engine import Database
from shared.events.topology import STREAM
from shared.runtime.connections import create_bus, create_database
from shared.runtime.settings import Settings


@dataclass(frozen=True)
class ProcessUsage:
    """Usage of a process, or of a server with its child processes."""

    rss_bytes: int
    """Shared pages are counted for each process."""
    pss_bytes: int
    """Shared pages are divided among their processes, so that it can be summed."""
    private_bytes: int
    processes: int
    files: int
    """Open files, including sockets."""
    seconds: float
    """Processor seconds so far."""


@dataclass(frozen=True)
class Table:
    bytes: int
    """Including indexes and TOAST."""
    live_rows: int
    dead_rows: int
    """Both are PostgreSQL's estimates."""
    autovacuums: int


@dataclass(frozen=True)
class Stream:
    messages: int
    bytes: int


@dataclass(frozen=True)
class Queue:
    lag: int
    """Undelivered messages."""
    in_flight: int
    redelivered: int
    """Messages in flight that were delivered before."""


@dataclass(frozen=True)
class Work:
    """Numbers of iterations and steps, since the start unless stated otherwise."""

    started: int
    completed: int
    failed: int
    with_errors: int
    running: int
    unpublished_ends: int
    """Ended iterations that the scheduler has not processed yet."""
    open_steps: int
    lapsed_leases: int
    failed_steps: int
    republish_count: int
    """Steps that the reconciler has republished."""
    dead_letters: int
    nodes: int
    edges: int
    merges: int
    context_bytes: float | None
    """Average size of the newest contexts since the last sample."""


@dataclass(frozen=True)
class Sample:
    at_seconds: float
    """Since the agents were activated."""
    processes: Mapping[str, ProcessUsage]
    tables: Mapping[str, Table]
    streams: Mapping[str, Stream]
    queues: Mapping[str, Queue]
    wal_bytes: int
    """Size of PostgreSQL's WAL files."""
    work: Work
    seconds: Sequence[float]
    """Seconds of each iteration completed since the last sample."""

    @property
    def lag(self) -> int:
        return sum(queue.lag + queue.in_flight for queue in self.queues.values())

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing waits or runs, and every end is processed."""
        work = self.work
        return not (self.lag or work.running or work.open_steps or work.unpublished_ends)


@dataclass
class Run:
    agents: int
    period_seconds: int
    warm_up_seconds: float
    planned_seconds: float
    load_before: float = 0.0
    """Load average of the minute before the run."""
    ran_seconds: float = 0.0
    """Until the last sample."""
    is_whole: bool = False
    """Whether the run was not ended early."""
    samples: list[Sample] = field(default_factory=list)
    """Samples while the agents ran."""
    at_rest: Sample | None = None
    """The sample after running work had ended or timed out; None if it failed."""
    failures: list[str] = field(default_factory=list)
    """Failed samples, with their errors."""
    complaints: list[str] = field(default_factory=list)
    """Warnings of the services."""

    @property
    def steady(self) -> Sequence[Sample]:
        """Samples after the warm-up."""
        return [sample for sample in self.samples if sample.at_seconds >= self.warm_up_seconds]


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
        count(*) filter (where ended_at is not null and end_published_at is null) as unpublished_ends
    from iterations) of_iterations, (
    select count(*) filter (where status in ('pending', 'running')) as open_steps,
        count(*) filter (where status = 'running' and lease_until < clock_timestamp()) as lapsed_leases,
        count(*) filter (where status = 'failed') as failed_steps,
        coalesce(sum(republish_count), 0)::int as republish_count
    from steps) of_steps, (
    select (select count(*) from dead_letters) as dead_letters,
        (select count(*) from graph_nodes) as nodes,
        (select count(*) from graph_edges) as edges,
        (select count(*) from graph_merges) as merges) of_graphs"""
_CONTEXTS: Final = """
select agent_id, sha256 from contexts where created_at > %(since)s and created_at <= %(until)s
order by created_at desc limit 20"""
_SECONDS: Final = """
select extract(epoch from ended_at - started_at)::float as seconds from iterations
where status = 'completed' and ended_at > %(since)s and ended_at <= %(until)s order by ended_at"""


class Sampler:
    def __init__(
        self,
        pids: Pids,
        connection: psycopg.AsyncConnection[DictRow],
        jetstream: JetStreamContext,
        database: Database,
    ) -> None:
        self._pids = pids
        self._connection = connection
        self._database = database
        self._jetstream = jetstream
        self._since: Any = None

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: Settings, pids: Pids) -> "AsyncIterator[Sampler]":
        """Connect. `pids` yields the processes by name; their children are included."""
        bus = create_bus(settings, "bench")
        database = create_database(settings, "bench")
        await bus.connect()
        try:
            async with await psycopg.AsyncConnection.connect(
                settings.database_url, autocommit=True, row_factory=dict_row
            ) as connection:
                sampler = cls(pids, connection, bus.jetstream, database)
                sampler._since = await sampler._now()
                yield sampler
        finally:
            await database.close()
            await bus.close()

    async def sample(self, at_seconds: float) -> Sample:
        """Take a sample. Raises the error of a missing process or an engine that does not answer."""
        processes = await asyncio.to_thread(
            lambda: {name: process_usage(name, pid) for name, pid in self._pids()}
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
            Work(**work, context_bytes=await self._context_bytes(span)),
            [row["seconds"] for row in seconds],
        )
        self._since = span["until"]
        return sample

    async def _context_bytes(self, span: Mapping[str, Any]) -> float | None:
        """The average size of the texts, which are stored as differences."""
        rows = await self._rows(_CONTEXTS, span)
        async with self._database.connection() as connection:
            texts = await load_texts(
                connection, [(row["agent_id"], bytes(row["sha256"])) for row in rows]
            )
        return mean(len(text.encode()) for text in texts.values()) if texts else None

    async def _streams(self) -> Mapping[str, Stream]:
        streams = await self._jetstream.streams_info()
        return {
            str(stream.config.name): Stream(stream.state.messages, stream.state.bytes)
            for stream in streams
        }

    async def _queues(self) -> Mapping[str, Queue]:
        consumers = await self._jetstream.consumers_info(STREAM)
        return {
            consumer.name: Queue(
                consumer.num_pending or 0,
                consumer.num_ack_pending or 0,
                consumer.num_redelivered or 0,
            )
            for consumer in consumers
            if consumer.config.durable_name  # others belong to observers
        }

    async def _now(self) -> Any:
        (row,) = await self._rows("select clock_timestamp() as now")
        return row["now"]

    async def _rows(self, query: str, params: Mapping[str, Any] | None = None) -> list[DictRow]:
        cursor = await self._connection.execute(query.encode(), params)
        return await cursor.fetchall()


def process_usage(name: str, pid: int) -> ProcessUsage:
    """The usage of a process and its children. Raises psutil.NoSuchProcess if it has ended."""
    root = psutil.Process(pid)
    if root.status() == psutil.STATUS_ZOMBIE:  # it would count as using nothing
        raise psutil.NoSuchProcess(pid, name)
    usages = [_single_process_usage(root)]
    for child in root.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            usages.append(_single_process_usage(child))
    return ProcessUsage(
        sum(usage.rss_bytes for usage in usages),
        sum(usage.pss_bytes for usage in usages),
        sum(usage.private_bytes for usage in usages),
        len(usages),
        sum(usage.files for usage in usages),
        sum(usage.seconds for usage in usages) + _ended_children_seconds(root),
    )


def _single_process_usage(process: psutil.Process) -> ProcessUsage:
    memory, times = process.memory_full_info(), process.cpu_times()
    seconds = times.user + times.system
    return ProcessUsage(memory.rss, memory.pss, memory.uss, 1, process.num_fds(), seconds)


def _ended_children_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.children_user + times.children_system)
