"""What stands around every handler, once: heartbeat, errors, dead letters, and handing over when told to stop."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from faststream.exceptions import NackMessage
from faststream.nats import NatsMessage

from shared.crash_points import CrashPoint, reach
from shared.errors import PermanentError, TransientError
from shared.events.codec import decode
from shared.events.envelope import Event
from shared.runtime.bus import Bus
from shared.runtime.logs import about, logger
from shared.store import dead_letters
from shared.store.database import Database
from shared.store.storable import error_text

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

log = logger(__name__)


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
