"""FastStream's pull subscriber, with slots, and with a pause while NATS refuses requests."""

import asyncio
from typing import Any, Final

from faststream.nats.subscriber.usecases import PullStreamSubscriber
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from shared.events.topology import STREAM
from shared.failpoints import Failpoint, failpoint
from shared.runtime.logging import logger

REQUEST_SECONDS = 5.0
"""How long NATS keeps a pull request. One that it lost is sent again after this time."""
MIN_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 5.0
HAND_OVER_SECONDS: Final = 5.0
RECEIVE_SECONDS: Final = 1
"""How long a stop waits until NATS answers."""
READ_SECONDS: Final = 0.1
"""How long a stop waits until a message that has arrived is read."""

log = logger(__name__)


class PullSubscriber(PullStreamSubscriber):
    """Handles at most `slots` messages at a time. Has one open request, for one message, while a slot is free.

    FastStream's own loop fetches for each slot, sends requests without a pause while the consumer is missing, and waits
    for the end of a request that NATS lost when it restarted.
    """

    def __init__(self, *args: Any, slots: int, **options: Any) -> None:
        super().__init__(*args, **options)
        self.slots = slots
        self._free = asyncio.Semaphore(slots)
        self._request: asyncio.Task[list[Msg]] | None = None
        self._handlers: set[asyncio.Task[None]] = set()

    def forget_request(self) -> None:
        """Sends the open request again, after a reconnect."""
        if self._request is not None:
            self._request.cancel()

    async def stop(self) -> None:
        """Waits for running handlers for the broker's `graceful_timeout`, then cancels them, so that they hand over."""
        failpoint(Failpoint.DRAINING)
        if self.subscription is not None and self.connection.is_closed:
            self.subscription = None
        await self._receive_what_is_sent()
        await super().stop()
        self.forget_request()
        unfinished = set(self._handlers)
        for handler in unfinished:
            handler.cancel()
        if unfinished:
            log.info(
                "released unfinished work",
                messages=len(unfinished),
                after_seconds=self._outer_config.graceful_timeout,
                setting="VIGIL_DRAIN_SECONDS",
            )
            # If PostgreSQL does not respond, even that fails; then the leases and ack_wait expire.
            await asyncio.wait(unfinished, timeout=HAND_OVER_SECONDS)

    async def _receive_what_is_sent(self) -> None:
        """Waits for a message that NATS has sent but the client has not read, so that it is handed back."""
        self.running = False
        if self._request is None or not self.connection.is_connected:
            return
        try:
            # The answer to its ping follows all that NATS has sent before.
            await self.connection.flush(RECEIVE_SECONDS)
        except (NatsError, TimeoutError) as error:
            log.info("stopping without an answer of NATS", error=repr(error))
            return
        await asyncio.wait({self._request}, timeout=READ_SECONDS)

    async def _create_subscription(self) -> None:
        """Subscribes to the answers of a consumer that exists."""
        durable = self.extra_options["durable"]
        self.subscription = await self.jetstream.pull_subscribe_bind(durable, STREAM)
        self.add_task(self._pull)

    async def _pull(self) -> None:
        while self.running:
            await self._free.acquire()
            handler = asyncio.create_task(self._handle(await self._next_message()))
            self._handlers.add(handler)
            handler.add_done_callback(self._release)

    def _release(self, handler: asyncio.Task[None]) -> None:
        self._handlers.discard(handler)
        self._free.release()

    async def _handle(self, message: Msg) -> None:
        if self.running:
            failpoint(Failpoint.MESSAGE_RECEIVED)
            await self.consume(message)
        else:  # FastStream would ignore it, and it would be blocked until ack_wait
            await message.nak()

    async def _next_message(self) -> Msg:
        pause_seconds = MIN_PAUSE_SECONDS
        while True:
            if (
                not self.connection.is_connected
            ):  # the client would send each request when it has reconnected
                await asyncio.sleep(MIN_PAUSE_SECONDS)
                continue
            assert self.subscription is not None
            self._request = asyncio.create_task(self.subscription.fetch(1, REQUEST_SECONDS))
            await asyncio.wait({self._request})
            if self._request.cancelled():
                continue
            error = self._request.exception()
            if error is None:
                return self._request.result()[0]
            if isinstance(error, TimeoutError):  # no message
                pause_seconds = MIN_PAUSE_SECONDS
                continue
            if not isinstance(error, NatsError):
                raise error
            if pause_seconds == MIN_PAUSE_SECONDS:
                log.warning("NATS does not deliver messages", error=repr(error))
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, MAX_PAUSE_SECONDS)
