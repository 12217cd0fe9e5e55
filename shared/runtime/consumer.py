"""The message consumer: connects, handles messages concurrently, and stops without losing any."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from math import nan
from typing import Final, Protocol

from faststream.exceptions import NackMessage
from faststream.nats import NatsMessage
from nats.errors import Error as NatsError
from nats.js.api import ConsumerInfo
from prometheus_client import CollectorRegistry

from shared.database.engine import Database
from shared.database.text import error_text
from shared.errors import PermanentError, TransientError, UnavailableError
from shared.events.codec import decode
from shared.events.envelope import Event
from shared.events.stream_admin import find_consumer_fault
from shared.events.topology import CONSUMERS
from shared.failpoints import Failpoint, failpoint
from shared.runtime import database_probe
from shared.runtime.background import raise_if_cancelled
from shared.runtime.bus import Bus
from shared.runtime.logging import log_context, logger
from shared.runtime.pull_loop import PullLoop
from shared.telemetry import metrics, tracing
from shared.workflow import dead_letters

EventHandler = Callable[[Event], Awaitable[Sequence[Event]]]
"""Commits what the event requires, and returns the events that follow from the committed state."""

HEARTBEATS_PER_ACK_WAIT = 4
HAND_OVER_SECONDS = 5.0
MAX_FAILURES = 50
"""After so many unexpected errors in this process a message becomes a dead letter; steps give up much earlier.

Deliveries are not counted: the request of a step that waits for a provider may be delivered hundreds of times.
"""
MIN_DELAY_SECONDS = 0.5
MAX_DELAY_SECONDS = 60.0
MAX_DELAY_WHILE_UNAVAILABLE_SECONDS = 5.0
"""What is only unavailable (PostgreSQL, NATS, another worker's lease) is retried more often than errors."""


class MessageHandler:
    """Handles one message at a time per slot."""

    def __init__(
        self,
        service: str,
        handler: EventHandler,
        bus: Bus,
        database: Database,
        ack_wait_seconds: float,
    ) -> None:
        self._service = service
        self._handler = handler
        self._bus = bus
        self._database = database
        self._heartbeat_seconds = ack_wait_seconds / HEARTBEATS_PER_ACK_WAIT
        self._running: set[asyncio.Task[object]] = set()
        self._failures: Counter[int] = Counter()
        """Unexpected errors by the message's number in the stream, of those that failed last."""
        for reason in ("error", "unavailable"):
            metrics.MESSAGE_RETRIES.labels(
                service, reason
            )  # from zero on, so that the first increase is seen

    async def receive(self, message: NatsMessage) -> None:
        """Handles a message and publishes what follows; returning acks it. Raises NackMessage for redelivery."""
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        failpoint(Failpoint.MESSAGE_RECEIVED)
        try:
            async with self._heartbeat(message):
                await self._handle(message)
        except TransientError as error:
            self._count_retry("error" if error.counts else "unavailable")
            raise NackMessage(delay=_delay_seconds(message, error)) from error
        except Exception as error:
            # Not even a dead letter could be stored. Without a delay the message would be redelivered at once.
            log.exception("unexpected error")
            self._count_retry("error")
            wrapped_error = TransientError(repr(error))
            raise NackMessage(delay=_delay_seconds(message, wrapped_error)) from error
        except asyncio.CancelledError:
            # Another replica gets it at once instead of after ack_wait.
            await asyncio.shield(message.nack())
            raise
        finally:
            self._running.discard(task)

    async def drain(self, seconds: float) -> None:
        """Lets running handlers finish for `seconds`, then hands the rest over."""
        failpoint(Failpoint.DRAINING)
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)
        unfinished = set(self._running)
        for task in unfinished:
            task.cancel()
        if unfinished:
            log.info(
                "released unfinished work",
                messages=len(unfinished),
                after_seconds=seconds,
                setting="VIGIL_DRAIN_SECONDS",
            )
            # If PostgreSQL does not respond, even that fails; then the leases and ack_wait expire.
            await asyncio.wait(unfinished, timeout=HAND_OVER_SECONDS)

    async def _handle(self, message: NatsMessage) -> None:
        try:
            event = decode(message.raw_message.data)
        except PermanentError as error:
            await self._dead_letter(message, error)
            return
        with log_context(event), _traced(event, message):
            try:
                events = await self._handler(event)
                failpoint(Failpoint.STATE_COMMITTED)
                await self._bus.publish_all(events)
                failpoint(Failpoint.EVENTS_PUBLISHED)
                self._failures.pop(_stream_sequence(message), None)
            except TransientError as error:
                # Of an outage the log tells once, not for each step.
                is_known = isinstance(error, UnavailableError) and error.is_announced
                log_retry = log.debug if is_known else log.warning
                log_retry("will retry", error=str(error), retry_in_seconds=error.retry_in_seconds)
                raise
            except PermanentError as error:
                await self._dead_letter(message, error)
            except Exception as error:
                log.exception("unexpected error")
                self._failures[_stream_sequence(message)] += 1
                if self._failures[_stream_sequence(message)] >= MAX_FAILURES:
                    await self._dead_letter(message, PermanentError("unexpected", repr(error)))
                    del self._failures[_stream_sequence(message)]
                    return
                raise TransientError(repr(error)) from error

    async def _dead_letter(self, message: NatsMessage, error: PermanentError) -> None:
        message_text = error_text(str(error))
        async with self._database.transaction() as session:
            await dead_letters.store(
                session,
                service=self._service,
                subject=message.raw_message.subject,
                payload=message.raw_message.data,
                code=error.code,
                error=message_text,
                attempts=_deliveries(message),
            )
        metrics.DEAD_LETTERS_STORED.labels(self._service, metrics.CODES(error.code)).inc()
        log.error("stored as a dead letter", code=error.code, error=message_text)

    def _count_retry(self, reason: str) -> None:
        metrics.MESSAGE_RETRIES.labels(self._service, reason).inc()

    @asynccontextmanager
    async def _heartbeat(self, message: NatsMessage) -> AsyncIterator[None]:
        async def send_heartbeats() -> None:
            while True:
                await asyncio.sleep(self._heartbeat_seconds)
                await message.in_progress()

        heartbeat = asyncio.create_task(send_heartbeats())
        try:
            yield
        finally:
            heartbeat.cancel()


def _traced(event: Event, message: NatsMessage) -> AbstractContextManager[None]:
    return tracing.message(
        event.correlation_id,
        message.headers.get(tracing.HEADER),
        event.subject,
        event.event_id,
        _deliveries(message),
    )


def _stream_sequence(message: NatsMessage) -> int:
    return int(message.raw_message.metadata.sequence.stream)


def _deliveries(message: NatsMessage) -> int:
    return int(message.raw_message.metadata.num_delivered)


def _delay_seconds(message: NatsMessage, error: TransientError) -> float:
    max_seconds = MAX_DELAY_SECONDS if error.counts else MAX_DELAY_WHILE_UNAVAILABLE_SECONDS
    backoff_seconds = MIN_DELAY_SECONDS * 2.0 ** min(_deliveries(message) - 1, 10)
    return max(min(backoff_seconds, max_seconds), error.retry_in_seconds or 0.0)


RETRY_SECONDS = 0.5
LOG_INTERVAL_SECONDS = 30.0
WATCH_SECONDS = 5.0
NOT_CONNECTED: Final = "NATS: not connected"

log = logger(__name__)

Background = Callable[[], Coroutine[None, None, None]]
"""Runs beside the handlers until it is cancelled."""


class MetricsSource(Protocol):
    """Further metrics of a service."""

    @property
    def registry(self) -> CollectorRegistry: ...

    async def refresh(self) -> None:
        """Measures before a scrape. Raises TransientError if PostgreSQL is unavailable."""


class ConsumerLostError(RuntimeError):
    """The connection is closed permanently; only a restart of the process restores it."""


class MessageConsumer:
    """One service on the bus. `handlers` maps each event type that it subscribes to to its handler.

    `background` starts when its consumer exists, and `from_connection` when it has connected to NATS.
    """

    def __init__(
        self,
        name: str,
        *,
        handlers: Mapping[type[Event], EventHandler],
        bus: Bus,
        database: Database,
        concurrency: int,
        drain_seconds: float,
        background: Sequence[Background] = (),
        from_connection: Sequence[Background] = (),
        closing: Sequence[Callable[[], Awaitable[None]]] = (),
        further_metrics: Sequence[MetricsSource] = (),
    ) -> None:
        self.name = name
        self.bus = bus
        self.database = database
        self._handlers = dict(handlers)
        self._consumer = CONSUMERS[name]
        assert set(self._handlers) == set(self._consumer.subscribes_to), (
            f"{name} must handle every event it subscribes to"
        )
        self._concurrency = concurrency
        self._drain_seconds = drain_seconds
        self._background = background
        self._from_connection = from_connection
        self._closing = closing
        self._further_metrics = further_metrics
        self._message_handler = MessageHandler(
            name, self._dispatch, bus, database, self._consumer.ack_wait_seconds
        )
        self._pull_loop = PullLoop(
            bus, self._consumer, self._message_handler.receive, slots=concurrency
        )
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
                await self._consume()
                raise_if_cancelled()
                for task in self._background:
                    group.create_task(task())
                group.create_task(self._pull_loop.run())
                group.create_task(self._watch())
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

    async def measure(self) -> Sequence[CollectorRegistry]:
        """Measures before a scrape, and returns the registries of this service's metrics. Raises nothing."""
        await database_probe.probe(self.database, [each.refresh for each in self._further_metrics])
        return [metrics.REGISTRY, *(each.registry for each in self._further_metrics)]

    async def _consume(self) -> None:
        await self._pull_loop.start()
        self._consuming = True
        log.info("ready", concurrency=self._concurrency)

    async def _dispatch(self, event: Event) -> Sequence[Event]:
        if type(event) not in self._handlers:
            raise PermanentError(
                "misplaced_event",
                f"{event.type} was published on the wrong subject; find the program that publishes it",
            )
        return await self._handlers[type(event)](event)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            if (refusal := self.bus.refusal) is not None:
                raise ConsumerLostError(refusal)
            if self.bus.client.is_closed:
                raise ConsumerLostError(
                    f"NATS closed the connection: {self.bus.client.last_error!r}"
                )
            await self._consumer_fault()  # for its metrics
            raise_if_cancelled()

    async def _stop(self) -> None:
        self._consuming = False
        await self._pull_loop.unsubscribe()
        await self._message_handler.drain(self._drain_seconds)
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
        # The process looks at its consumer every WATCH_SECONDS anyway.
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
