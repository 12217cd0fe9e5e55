"""One service on the bus: waits for what it needs, has FastStream receive messages, and stops without losing any."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from math import nan
from typing import Final

from nats.errors import Error as NatsError
from nats.js.api import ConsumerInfo

from shared.database.engine import MAX_IDLE_SECONDS, Database
from shared.errors import TransientError
from shared.events.stream_admin import find_consumer_fault
from shared.events.topology import CONSUMERS
from shared.runtime.background import raise_if_cancelled
from shared.runtime.bus import Bus
from shared.runtime.database_probe import MetricsSource
from shared.runtime.logging import logger
from shared.runtime.middlewares.dead_letter import DeadLetters
from shared.runtime.middlewares.heartbeat import Heartbeat
from shared.runtime.middlewares.publish import Publish
from shared.runtime.middlewares.retry import Retry
from shared.runtime.middlewares.trace import Trace
from shared.runtime.router import ServiceRouter
from shared.telemetry import metrics

RETRY_SECONDS = 0.5
LOG_INTERVAL_SECONDS = 30.0
WATCH_SECONDS = 5.0
PRESENCE_SECONDS: Final = MAX_IDLE_SECONDS * 2 / 3
MEASURE_SECONDS = 3.0
"""A scrape does not wait longer for NATS."""
NOT_CONNECTED: Final = "NATS: not connected"

log = logger(__name__)

Background = Callable[[], Coroutine[None, None, None]]
"""Runs beside the handlers until it is cancelled."""


class ConsumerLostError(RuntimeError):
    """The connection is closed permanently; only a restart of the process restores it."""


class MessageConsumer:
    """`background` starts when the service's consumer exists, and `from_connection` when it has connected to NATS."""

    def __init__(
        self,
        name: str,
        router: ServiceRouter,
        *,
        bus: Bus,
        database: Database,
        background: Sequence[Background] = (),
        from_connection: Sequence[Background] = (),
        closing: Sequence[Callable[[], Awaitable[None]]] = (),
        further_metrics: Sequence[MetricsSource] = (),
    ) -> None:
        self.name = name
        self.bus = bus
        self.database = database
        self._consumer = CONSUMERS[name]
        # From the outermost to the innermost; FastStream's own acknowledges the message at the end.
        middlewares = [
            Heartbeat(self._consumer.ack_wait_seconds),
            Trace(),
            Retry(name),
            DeadLetters(name, database),
            Publish(bus),
        ]
        bus.broker.include_router(router, middlewares=middlewares)
        self._background = background
        self._from_connection = from_connection
        self._closing = closing
        self.databases = [database]
        self.further_metrics = further_metrics
        self._consuming = False
        self._start_fault: str | None = None
        """What the start waits for."""

    async def run(self) -> None:
        """Works until cancelled; then drains, closes its connections and returns.

        Raises ConsumerLostError if its connection is closed permanently: the process should end and be restarted, to
        read its credentials again. It waits for a consumer that is missing.
        """
        try:
            # Unknown, which the alert for NATS looks for, until the consumer was found.
            _set_lag(self.name, None, None)
            await self._wait_until("PostgreSQL", self._postgres_fault)
            self._start_fault = NOT_CONNECTED
            await self.bus.connect()
            async with asyncio.TaskGroup() as group:
                for task in self._from_connection:
                    group.create_task(task())
                await self._wait_until("the bus", self._consumer_fault)
                await self.bus.broker.start()
                self._consuming = True
                log.info("ready")
                raise_if_cancelled()
                for task in self._background:
                    group.create_task(task())
                group.create_task(self._watch())
                group.create_task(self._keep_connection())
        except ExceptionGroup as errors:
            first = errors.exceptions[0]
            raise first from first.__cause__
        finally:
            await asyncio.shield(self._stop())

    async def fault(self) -> str | None:
        """Why this service is not ready, or None."""
        if not self._consuming:
            return self._start_fault or "still starting, or stopping"
        fault = await self._postgres_fault() or await self._consumer_fault()
        return fault or self.bus.store_fault

    @property
    def store_fault(self) -> str | None:
        """Why NATS does not store messages, as far as this service has noticed."""
        return self.bus.store_fault

    async def measure_queue(self) -> None:
        """Sets the gauges of its consumer before a scrape: to NaN if NATS does not answer in time. Raises nothing."""
        if not self.bus.is_connected:
            _set_lag(self.name, None, None)
            return
        measuring = asyncio.ensure_future(self._consumer_fault())
        finished, _ = await asyncio.wait({measuring}, timeout=MEASURE_SECONDS)
        if not finished:
            measuring.cancel()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            if (refusal := self.bus.refusal) is not None:
                raise ConsumerLostError(refusal)
            if self.bus.client.is_closed:
                raise ConsumerLostError(
                    f"NATS closed the connection: {self.bus.client.last_error!r}"
                )
            raise_if_cancelled()

    async def _keep_connection(self) -> None:
        """Uses PostgreSQL before its last connection is closed: `vigil top` counts replicas by their connections."""
        while True:
            await self._postgres_fault()
            raise_if_cancelled()
            await asyncio.sleep(PRESENCE_SECONDS)

    async def _stop(self) -> None:
        self._consuming = False
        for subscriber in self.bus.broker.subscribers:
            await subscriber.stop()
        await self.bus.close()
        # They may still write to the database.
        for close in self._closing:
            await close()
        await self.database.close()
        log.info("stopped")

    async def _wait_until(self, name: str, find_fault: Callable[[], Awaitable[str | None]]) -> None:
        logged_fault: str | None = None
        seconds_since_log = 0.0
        while (current_fault := await find_fault()) is not None:
            self._start_fault = current_fault
            raise_if_cancelled()
            if current_fault != logged_fault or seconds_since_log >= LOG_INTERVAL_SECONDS:
                log.warning(f"waiting for {name}", reason=current_fault)
                logged_fault, seconds_since_log = current_fault, 0.0
            await asyncio.sleep(RETRY_SECONDS)
            seconds_since_log += RETRY_SECONDS
        self._start_fault = None

    async def _postgres_fault(self) -> str | None:
        try:
            await self.database.ping()
        except TransientError as error:
            return str(error)
        return None

    async def _consumer_fault(self) -> str | None:
        if not self.bus.client.is_connected:
            _set_lag(self.name, None, None)
            return self.bus.refusal or NOT_CONNECTED
        lag: tuple[int | None, int | None] = (None, None)

        def observe(info: ConsumerInfo) -> None:
            nonlocal lag
            lag = (info.num_pending, info.num_ack_pending)

        try:
            return await find_consumer_fault(self.bus.jetstream, self._consumer, observe)
        except (NatsError, TimeoutError) as error:
            return f"NATS: {error!r}"
        finally:
            _set_lag(self.name, *lag)


def _set_lag(consumer: str, pending: int | None, unacknowledged: int | None) -> None:
    metrics.CONSUMER_PENDING.labels(consumer).set(nan if pending is None else pending)
    metrics.CONSUMER_UNACKNOWLEDGED.labels(consumer).set(
        nan if unacknowledged is None else unacknowledged
    )
