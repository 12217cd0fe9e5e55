"""What a run has taken of the engines and the processes: taken before and after, the difference is the run's."""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any, Final

import psycopg
from psycopg.rows import dict_row

from bench.loop.fleet import Fleet, seconds_of_family

FLUSH_SECONDS: Final = 11.0
"""After so long PostgreSQL's idle sessions have told their counts."""


@dataclass(frozen=True)
class Taken:
    """Of one moment. Times are processor time in seconds."""

    wal_at: str
    transactions: int
    messages: int
    seconds: Mapping[str, float]


@dataclass(frozen=True)
class Used:
    """Between two moments, of one iteration where it is divided by their number."""

    commits: float
    transactions: float
    wal_bytes: float
    messages: float
    seconds: Mapping[str, float]

    def per(self, iterations: int) -> "Used":
        return Used(
            self.commits / iterations,
            self.transactions / iterations,
            self.wal_bytes / iterations,
            self.messages / iterations,
            {name: value / iterations for name, value in self.seconds.items()},
        )

    @classmethod
    def mean(cls, each: "Sequence[Used]") -> "Used":
        return cls(
            mean(one.commits for one in each),
            mean(one.transactions for one in each),
            mean(one.wal_bytes for one in each),
            mean(one.messages for one in each),
            {name: mean(one.seconds[name] for one in each) for name in each[0].seconds},
        )

    @property
    def all_seconds(self) -> float:
        return sum(self.seconds.values())


class Meter:
    """Of one installation."""

    def __init__(
        self,
        dsn: str,
        database: str,
        postgres_pid: int,
        nats_pid: int | None,
        fleet: Fleet | None,
    ) -> None:
        """`dsn` is of a superuser, in another database than `database`, whose counts these are."""
        self._connection = psycopg.connect(dsn, autocommit=True, row_factory=dict_row)
        self._connection.execute("create extension if not exists pg_walinspect")
        self._database = database
        self._postgres_pid = postgres_pid
        self._nats_pid = nats_pid
        self._fleet = fleet

    def take(self, messages: int) -> Taken:
        """`messages` are those of the stream so far."""
        seconds = {} if self._fleet is None else dict(self._fleet.seconds)
        seconds["driver"] = sum(os.times()[:2])
        seconds["postgres"] = seconds_of_family(self._postgres_pid)
        if self._nats_pid is not None:
            seconds["nats"] = seconds_of_family(self._nats_pid)
        wal_at = self._one("select pg_current_wal_insert_lsn() as it")["it"]
        return Taken(wal_at, self._transactions(), messages, seconds)

    def between(self, before: Taken, after: Taken) -> Used:
        """The transactions are those told by now: see `settle`."""
        commits = self._one(
            "select coalesce(sum(count), 0) as it from pg_get_wal_stats(%s, %s, true)"
            " where \"resource_manager/record_type\" like 'Transaction/COMMIT%%'",
            before.wal_at,
            after.wal_at,
        )
        wal = self._one("select pg_wal_lsn_diff(%s, %s) as it", after.wal_at, before.wal_at)
        return Used(
            float(commits["it"]),
            float(self._transactions() - before.transactions),
            float(wal["it"]),
            float(after.messages - before.messages),
            {name: value - before.seconds.get(name, 0.0) for name, value in after.seconds.items()},
        )

    def settle(self) -> None:
        """Waits until all transactions are counted."""
        time.sleep(FLUSH_SECONDS)

    def close(self) -> None:
        self._connection.close()

    def _transactions(self) -> int:
        row = self._one(
            "select xact_commit as it from pg_stat_database where datname = %s", self._database
        )
        return int(row["it"])

    def _one(self, query: str, *given: Any) -> dict[str, Any]:
        row = self._connection.execute(query.encode(), given).fetchone()
        assert row is not None
        return row
