"""The consumer: connects, handles messages in several slots, and stops without losing any."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from faststream import AckPolicy
from faststream.exceptions import NackMessage
from faststream.nats import JStream, NatsMessage, PullSub
from nats.aio.msg import Msg
from nats.errors import ConnectionClosedError
from nats.errors import Error as NatsError
from nats.js.errors import ServiceUnavailableError

from shared.database.engine import Database
from shared.database.text import error_text
from shared.errors import PermanentError, TransientError
from shared.events.codec import decode
from shared.events.envelope import Event
from shared.events.stream_admin import fault, wanted
from shared.events.topology import CONSUMERS, STREAM
from shared.failpoints import CrashPoint, reach
from shared.runtime.background import heed_cancellation
from shared.runtime.bus import Bus
from shared.runtime.logging import about, logger
from shared.workflow import dead_letters

Handler = Callable[[Event], Awaitable[Sequence[Event]]]
"""Commits what `Event` asks for, and returns the events that follow from the committed state."""

HEARTBEATS_PER_ACK_WAIT = 4
HAND_OVER_SECONDS = 5.0
MAX_FAILURES = 50
"""After so many unexpected errors in this process a message becomes a dead letter; steps give up much earlier.

Deliveries are not counted: the request of a step that waits for a provider may be delivered hundreds of times.
"""
FIRST_DELAY_SECONDS = 0.5
LONGEST_DELAY_SECONDS = 60.0
LONGEST_DELAY_WHILE_AWAY_SECONDS = 5.0
"""What is merely away (Postgres, NATS, another worker's lease) is looked for more often than what fails."""


class Delivery:
    """Receives one message at a time, in as many slots as call it."""

    def __init__(
        self, actor: str, handler: Handler, bus: Bus, database: Database, ack_wait_seconds: float
    ) -> None:
        self._actor = actor
        self._handler = handler
        self._bus = bus
        self._database = database
        self._beat_seconds = ack_wait_seconds / HEARTBEATS_PER_ACK_WAIT
        self._running: set[asyncio.Task[object]] = set()
        self._failures: Counter[int] = Counter()
        """Unexpected errors by the message's number in the stream, of those that failed last."""

    async def receive(self, message: NatsMessage) -> None:
        """Handles, publishes what follows, and returns for the ack. Raises NackMessage to see the message again."""
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        reach(CrashPoint.MESSAGE_RECEIVED)
        try:
            async with self._heartbeat(message):
                await self._handle(message)
        except TransientError as error:
            raise NackMessage(delay=_delay_seconds(message, error)) from error
        except Exception as error:
            # Not even a dead letter could be kept. Without a delay the message would be back at once, and again.
            log.exception("unexpected error")
            again = TransientError(repr(error))
            raise NackMessage(delay=_delay_seconds(message, again)) from error
        except asyncio.CancelledError:
            # Another replica has it at once instead of after ack_wait.
            await asyncio.shield(message.nack())
            raise
        finally:
            self._running.discard(task)

    async def drain(self, seconds: float) -> None:
        """Lets running handlers finish for `seconds`, then hands over what is left."""
        reach(CrashPoint.DRAINING)
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)
        left = set(self._running)
        for task in left:
            task.cancel()
        if left:
            log.info(
                "handed over unfinished work",
                messages=len(left),
                after_seconds=seconds,
                setting="VIGIL_DRAIN_SECONDS",
            )
            # Where Postgres answers nothing, not even that is possible; leases and ack_wait do it then.
            await asyncio.wait(left, timeout=HAND_OVER_SECONDS)

    async def _handle(self, message: NatsMessage) -> None:
        try:
            event = decode(message.raw_message.data)
        except PermanentError as error:
            await self._bury(message, error)
            return
        with about(event):
            try:
                following = await self._handler(event)
                reach(CrashPoint.STATE_COMMITTED)
                await self._bus.publish_all(following)
                reach(CrashPoint.EVENTS_PUBLISHED)
                self._failures.pop(_place(message), None)
            except TransientError as error:
                log.warning(
                    "will try again", error=str(error), retry_in_seconds=error.retry_in_seconds
                )
                raise
            except PermanentError as error:
                await self._bury(message, error)
            except Exception as error:
                log.exception("unexpected error")
                self._failures[_place(message)] += 1
                if self._failures[_place(message)] >= MAX_FAILURES:
                    await self._bury(message, PermanentError("unexpected", repr(error)))
                    del self._failures[_place(message)]
                    return
                raise TransientError(repr(error)) from error

    async def _bury(self, message: NatsMessage, error: PermanentError) -> None:
        said = error_text(str(error))
        async with self._database.transaction() as session:
            await dead_letters.keep(
                session,
                actor=self._actor,
                subject=message.raw_message.subject,
                payload=message.raw_message.data,
                code=error.code,
                error=said,
                attempts=_deliveries(message),
            )
        log.error("kept as a dead letter", code=error.code, error=said)

    @asynccontextmanager
    async def _heartbeat(self, message: NatsMessage) -> AsyncIterator[None]:
        async def beat() -> None:
            while True:
                await asyncio.sleep(self._beat_seconds)
                await message.in_progress()

        beating = asyncio.create_task(beat())
        try:
            yield
        finally:
            beating.cancel()


def _place(message: NatsMessage) -> int:
    return int(message.raw_message.metadata.sequence.stream)


def _deliveries(message: NatsMessage) -> int:
    return int(message.raw_message.metadata.num_delivered)


def _delay_seconds(message: NatsMessage, error: TransientError) -> float:
    longest = LONGEST_DELAY_SECONDS if error.counts else LONGEST_DELAY_WHILE_AWAY_SECONDS
    growing = FIRST_DELAY_SECONDS * 2.0 ** min(_deliveries(message) - 1, 10)
    return max(min(growing, longest), error.retry_in_seconds or 0.0)


PULL_SECONDS = 5.0
"""How long a pull may wait on the server. One that a restart of NATS has swallowed is deaf for the rest of its time."""
LOOK_AGAIN_SECONDS = 0.5
SAY_AGAIN_SECONDS = 30.0
WATCH_SECONDS = 5.0

log = logger(__name__)

Background = Callable[[], Coroutine[None, None, None]]
"""Runs beside the handlers until it is cancelled."""

Fetch = Callable[..., Awaitable[list[Msg]]]


class ConsumerLostError(RuntimeError):
    """The consumer or the connection went away under the actor, which must start anew to get it back."""


class Actor:
    """One service of the bus. `handlers` says what it does with each kind of event that it hears."""

    def __init__(
        self,
        name: str,
        *,
        handlers: Mapping[type[Event], Handler],
        bus: Bus,
        database: Database,
        slots: int,
        drain_seconds: float,
        background: Sequence[Background] = (),
        closing: Sequence[Callable[[], Awaitable[None]]] = (),
    ) -> None:
        self.name = name
        self.bus = bus
        self.database = database
        self._handlers = dict(handlers)
        self._consumer = CONSUMERS[name]
        assert set(self._handlers) == set(self._consumer.hears), f"{name} must handle what it hears"
        self._slots = slots
        self._drain_seconds = drain_seconds
        self._background = background
        self._closing = closing
        self._delivery = Delivery(
            name, self._dispatch, bus, database, self._consumer.ack_wait_seconds
        )
        self._consuming = False

    async def run(self) -> None:
        """Works until cancelled; then drains, closes its connections and returns.

        Raises ConsumerLostError when its consumer is gone, or its way to it: the process should end and be started
        again, which reads its credentials anew, and waits.
        """
        try:
            await self._wait_until("PostgreSQL", self._postgres_fault)
            await self.bus.connect()
            await self._wait_until("the bus", self._consumer_fault)
            await self._consume()
            heed_cancellation()
            async with asyncio.TaskGroup() as group:
                for background in self._background:
                    group.create_task(background())
                group.create_task(self._watch())
        except ExceptionGroup as broken:
            first = broken.exceptions[0]
            raise first from first.__cause__
        finally:
            await asyncio.shield(self._stop())

    async def fault(self) -> str | None:
        """Why this actor is not ready, in words, or None."""
        if not self._consuming:
            return "still starting, or stopping"
        return await self._postgres_fault() or await self._consumer_fault()

    async def _consume(self) -> None:
        for slot in range(self._slots):
            # A subscriber for each slot, pulling one message at a time: more workers on one subscriber prefetch,
            # and what lies prefetched in a busy process is out of the other replicas' reach.
            subscribe = self.bus.broker.subscriber(
                config=wanted(self._consumer),
                stream=JStream(STREAM, declare=False),
                durable=self.name,
                pull_sub=PullSub(batch_size=1, timeout=PULL_SECONDS),
                ack_policy=AckPolicy.NACK_ON_ERROR,
                inbox_prefix=self.bus.inbox_prefix,
                title=f"{self.name}-{slot}",
            )
            subscribe(self._receive)
        await self.bus.broker.start()
        for subscriber in self.bus.broker.subscribers:
            pull = subscriber.subscription  # type: ignore[attr-defined]  # every one of ours pulls
            pull.fetch = _unhurried(pull.fetch)
        self._consuming = True
        log.info("ready", slots=self._slots)

    async def _receive(self, message: NatsMessage) -> None:
        await self._delivery.receive(message)

    async def _dispatch(self, event: Event) -> Sequence[Event]:
        if type(event) not in self._handlers:
            raise PermanentError(
                "misplaced_event",
                f"{event.type} stands on a subject that is not its own; look for who publishes it",
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
            fault_found = await self._consumer_fault()
            heed_cancellation()
            if fault_found is not None and "is not on stream" in fault_found:
                raise ConsumerLostError(fault_found)

    async def _stop(self) -> None:
        self._consuming = False
        await self.bus.stop_listening()
        await self._delivery.drain(self._drain_seconds)
        await self.bus.close()
        await self.database.close()
        for close in self._closing:
            await close()
        log.info("stopped")

    async def _wait_until(self, what: str, find_fault: Callable[[], Awaitable[str | None]]) -> None:
        said: str | None = None
        waited = 0.0
        while (found := await find_fault()) is not None:
            heed_cancellation()
            if found != said or waited >= SAY_AGAIN_SECONDS:
                log.warning(f"waiting for {what}", reason=found)
                said, waited = found, 0.0
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
            waited += LOOK_AGAIN_SECONDS

    async def _postgres_fault(self) -> str | None:
        try:
            await self.database.ping()
        except TransientError as error:
            return str(error)
        return None

    async def _consumer_fault(self) -> str | None:
        if not self.bus.client.is_connected:
            return self.bus.refusal or "NATS: not connected"
        try:
            return await fault(self.bus.jetstream, self._consumer)
        except (NatsError, TimeoutError) as error:
            return f"NATS: {error!r}"


def _unhurried(fetch: Fetch) -> Fetch:
    """`fetch` that waits where nobody is there to answer: FastStream asks again at once, which would be a spin."""

    async def fetch_or_wait(**wanted: Any) -> list[Msg]:
        try:
            return await fetch(**wanted)
        except (ConnectionClosedError, ServiceUnavailableError):
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
            raise

    return fetch_or_wait
