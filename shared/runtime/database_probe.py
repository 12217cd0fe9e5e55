"""Measures PostgreSQL, as this process sees it, before a scrape of its metrics."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from math import nan
from typing import Any, Final, Protocol

from prometheus_client import CollectorRegistry

from shared.database.engine import Database
from shared.database.statements import BoundQuery, CompiledStatement
from shared.errors import TransientError
from shared.runtime.logging import logger
from shared.telemetry import metrics


class MetricsSource(Protocol):
    """Metrics that are read from PostgreSQL."""

    @property
    def registry(self) -> CollectorRegistry: ...

    async def refresh(self) -> None:
        """Measures before a scrape. Raises TransientError if PostgreSQL is unavailable."""


PROBE_SECONDS: Final = 3.0
"""A scrape does not wait longer for PostgreSQL; Prometheus waits ten seconds."""
_CLOCK: Final = CompiledStatement("select extract(epoch from clock_timestamp())")

log = logger(__name__)


async def probe(
    databases: Sequence[Database], further: Sequence[Callable[[], Awaitable[None]]] = ()
) -> None:
    """Sets the gauges of PostgreSQL, and then runs `further`, for PROBE_SECONDS together. Raises nothing.

    `databases` are all pools of the process. Without an answer to one of them, or if PostgreSQL becomes unavailable
    meanwhile, `vigil_database_up` is 0. If `further` fails otherwise or is slow, this is logged.
    """
    use: Counter[str] = Counter()
    for database in databases:
        use.update(database.pool_use())  # `+` would drop zeros
    metrics.set_pool_use(use, sum(database.max_connections for database in databases))
    has_answered = asyncio.Event()
    measuring = asyncio.ensure_future(_measure(databases, has_answered, further))
    # Not asyncio.timeout: cancelling a query of a server that does not respond takes long too.
    finished, _ = await asyncio.wait({measuring}, timeout=PROBE_SECONDS)
    error = measuring.exception() if finished else TimeoutError()
    if error is None:
        return
    if not finished:
        measuring.cancel()
    if has_answered.is_set() and not isinstance(error, TransientError):
        log.error("cannot read the metrics that are in PostgreSQL", error=repr(error))
        return
    if not isinstance(error, TransientError | TimeoutError):
        log.error("cannot measure PostgreSQL", error=repr(error))
    metrics.DATABASE_UP.set(0)
    metrics.CLOCK_SKEW.set(nan)


async def _measure(
    databases: Sequence[Database],
    has_answered: asyncio.Event,
    further: Sequence[Callable[[], Awaitable[None]]],
) -> None:
    for database in databases:
        began, seconds = time.time(), time.perf_counter()
        answered_at = await database.run(BoundQuery(_CLOCK, {}, _number))
        round_trip_seconds = time.perf_counter() - seconds
        metrics.CLOCK_SKEW.set(answered_at - began - round_trip_seconds / 2)
    metrics.DATABASE_UP.set(1)
    has_answered.set()
    for measure in further:
        await measure()


def _number(rows: Sequence[Any]) -> float:
    return float(rows[0][0])
