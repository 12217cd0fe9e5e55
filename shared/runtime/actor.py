"""The actor shell: waits for its world, consumes in K slots, and stops without losing anything."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

from faststream import AckPolicy
from faststream.nats import JStream, NatsMessage, PullSub
from nats.aio.msg import Msg
from nats.errors import ConnectionClosedError
from nats.errors import Error as NatsError
from nats.js.errors import ServiceUnavailableError

from shared.errors import PermanentError, TransientError
from shared.events.envelope import Event
from shared.events.provision import fault, wanted
from shared.events.topology import CONSUMERS, STREAM
from shared.runtime.bus import Bus
from shared.runtime.delivery import Delivery, Handler
from shared.runtime.ending import heed_cancellation
from shared.runtime.logs import logger
from shared.store.database import Database

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
