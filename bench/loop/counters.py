"""Counters of the engines and processes: the difference of two snapshots is the usage of a run."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any, Protocol

import psycopg
from psycopg.rows import dict_row

from bench.loop.service_pool import cpu_seconds


@dataclass(frozen=True)
class Snapshot:
    """Counters at one moment. Times are processor seconds."""

    wal_at: str
    messages: int
    seconds: Mapping[str, float]


@dataclass(frozen=True)
class Usage:
    """Usage between two snapshots, or of one iteration after `per`."""

    commits: float
    wal_bytes: float
    """Without images of whole pages: their number depends on when the last checkpoint was."""
    messages: float
    seconds: Mapping[str, float]

    def per(self, iterations: int) -> "Usage":
        return Usage(
            self.commits / iterations,
            self.wal_bytes / iterations,
            self.messages / iterations,
            {name: value / iterations for name, value in self.seconds.items()},
        )

    @classmethod
    def mean(cls, usages: "Sequence[Usage]") -> "Usage":
        return cls(
            mean(usage.commits for usage in usages),
            mean(usage.wal_bytes for usage in usages),
            mean(usage.messages for usage in usages),
            {name: mean(usage.seconds[name] for usage in usages) for name in usages[0].seconds},
        )

    @property
    def all_seconds(self) -> float:
        return sum(self.seconds.values())


class Processes(Protocol):
    @property
    def seconds(self) -> Mapping[str, float]:
        """Processor seconds so far, by name."""


class Meter:
    """Reads the counters of an installation."""

    def __init__(
        self,
        dsn: str,
        postgres_pid: int,
        nats_pid: int | None,
        pool: Processes | None,
    ) -> None:
        """`dsn` is of a superuser, in another database than the measured one."""
        self._connection = psycopg.connect(dsn, autocommit=True, row_factory=dict_row)
        self._connection.execute("create extension if not exists pg_walinspect")
        self._postgres_pid = postgres_pid
        self._nats_pid = nats_pid
        self._pool = pool

    def snapshot(self, messages: int) -> Snapshot:
        """Take a snapshot; `messages` is the number of messages in the stream."""
        seconds = {} if self._pool is None else dict(self._pool.seconds)
        seconds["driver"] = sum(os.times()[:2])
        seconds["postgres"] = cpu_seconds(self._postgres_pid)
        if self._nats_pid is not None:
            seconds["nats"] = cpu_seconds(self._nats_pid)
        wal_at = self._fetch_one("select pg_current_wal_insert_lsn() as it")["it"]
        return Snapshot(wal_at, messages, seconds)

    def usage_between(self, before: Snapshot, after: Snapshot) -> Usage:
        """The usage between two snapshots."""
        wal = self._fetch_one(
            "select coalesce(sum(fpi_size), 0) as images, coalesce(sum(count) filter ("
            " where \"resource_manager/record_type\" like 'Transaction/COMMIT%%'), 0) as commits,"
            " pg_wal_lsn_diff(%s, %s) as bytes from pg_get_wal_stats(%s, %s, true)",
            after.wal_at,
            before.wal_at,
            before.wal_at,
            after.wal_at,
        )
        return Usage(
            float(wal["commits"]),
            float(wal["bytes"] - wal["images"]),
            float(after.messages - before.messages),
            {name: value - before.seconds.get(name, 0.0) for name, value in after.seconds.items()},
        )

    def close(self) -> None:
        self._connection.close()

    def _fetch_one(self, query: str, *params: Any) -> dict[str, Any]:
        row = self._connection.execute(query.encode(), params).fetchone()
        assert row is not None
        return row
