"""Pulls the messages of a durable consumer: one open pull request for each free slot."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from faststream import AckPolicy
from faststream.nats import JStream, NatsMessage, PullSub
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

from shared.events.stream_admin import consumer_config
from shared.events.topology import STREAM, Consumer
from shared.runtime.bus import Bus
from shared.runtime.logging import logger

EXPIRY_SECONDS = 30.0
HEARTBEAT_SECONDS = 5.0
HEARTBEATS_UNTIL_LOST: Final = 2.2
"""After so many intervals without a heartbeat, NATS has lost the request."""
MIN_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 5.0
UNSUBSCRIBE_SECONDS = 2.0

_ACK_AND_NEXT: Final = b"+NXT "
_HEARTBEAT: Final = "100"
_EXPIRED: Final = "408"

log = logger(__name__)


@dataclass(eq=False)
class _Slot:
    inbox: str = ""
    """The prefix of the reply subjects of its requests."""
    subscription: Subscription | None = None
    pulls: int = 0
    request: str | None = None
    """The reply subject of the open request."""
    last_sign: float = 0.0
    """When the request was opened, or its last heartbeat arrived."""
    message: Msg | None = None
    """The message that is being handled."""

    @property
    def is_idle(self) -> bool:
        return self.request is None and self.message is None

    def next_request(self) -> str:
        """Registers a new request; returns its reply subject."""
        self.pulls += 1
        self.request, self.last_sign = f"{self.inbox}.{self.pulls}", time.monotonic()
        return self.request


@dataclass
class _PulledMessage(Msg):
    """A message whose acknowledgement also pulls the next one."""

    acknowledge: Callable[[], Awaitable[None]] = field(kw_only=True)

    async def ack(self) -> None:
        self._check_reply()
        await self.acknowledge()
        self._ackd = True


class PullLoop:
    """Calls `receive` for each message of `consumer`, at most `slots` at a time.

    The acknowledgement of a message carries the next pull request of its slot. NATS loses requests when it restarts or
    when the consumer is recreated: a request without heartbeats is opened again, and all are when the client has
    reconnected. If NATS then answers the earlier request too, the slot hands the second message back at once.

    FastStream calls `receive` and settles its message: it acks unless `receive` raises NackMessage.
    """

    def __init__(
        self,
        bus: Bus,
        consumer: Consumer,
        receive: Callable[[NatsMessage], Awaitable[None]],
        *,
        slots: int,
        expiry_seconds: float = EXPIRY_SECONDS,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        self._bus = bus
        self._heartbeat_seconds = heartbeat_seconds
        self._request_subject = f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{consumer.service}"
        self._request = _encode_request(expiry_seconds, heartbeat_seconds)
        self._slots = [_Slot() for _ in range(slots)]
        self._handlers: set[asyncio.Task[None]] = set()
        self._is_pull_due = asyncio.Event()
        self._is_refused = False
        self._pause_seconds = MIN_PAUSE_SECONDS
        self._subscriber: Any = bus.broker.subscriber(
            config=consumer_config(consumer),
            stream=JStream(STREAM, declare=False),
            durable=consumer.service,
            pull_sub=PullSub(),
            ack_policy=AckPolicy.NACK_ON_ERROR,
            title=consumer.service,
        )
        self._subscriber(receive)
        # Without a subscription FastStream would pull by itself.
        self._subscriber.subscription = self  # type: ignore[assignment]  # it only unsubscribes

    async def start(self) -> None:
        """Subscribes to the answers. The bus must be connected."""
        client = self._bus.client
        for slot in self._slots:
            slot.inbox = client.new_inbox()
            slot.subscription = await client.subscribe(
                f"{slot.inbox}.*", cb=partial(self._on_answer, slot)
            )
        await self._bus.broker.start()
        self._bus.call_on_reconnect(self._forget_requests)

    async def run(self) -> None:
        """Keeps a request open for each free slot, until cancelled."""
        while True:
            if self._is_refused:
                await self._back_off()
            self._is_pull_due.clear()
            self._forget_lost_requests()
            with suppress(NatsError):  # the connection was just lost
                for slot in self._slots:
                    if slot.is_idle and self._bus.is_connected:
                        await self._pull(slot, self._request_subject, self._request)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._heartbeat_seconds):
                    await self._is_pull_due.wait()

    async def unsubscribe(self) -> None:
        """Stops receiving. What NATS has sent already is handed back; otherwise it would be blocked until ack_wait."""
        self._subscriber.running = False
        self._subscriber.subscription = None
        subscriptions: list[Any] = [slot.subscription for slot in self._slots if slot.subscription]
        if self._bus.is_connected:
            with suppress(NatsError, TimeoutError):  # the server is unavailable
                async with asyncio.timeout(UNSUBSCRIBE_SECONDS):
                    await asyncio.gather(*(subscription.drain() for subscription in subscriptions))

    async def _pull(self, slot: _Slot, subject: str, payload: bytes) -> None:
        try:
            await self._bus.client.publish(subject, payload, reply=slot.next_request())
        except NatsError:
            slot.request = None
            self._is_refused = True
            self._is_pull_due.set()
            raise

    async def _on_answer(self, slot: _Slot, answer: Msg) -> None:
        if not answer.reply:
            if answer.subject == slot.request:
                self._on_status(slot, answer.headers or {})
            return
        self._pause_seconds = MIN_PAUSE_SECONDS
        if slot.message is not None or not self._subscriber.running:
            await answer.nak()
            return
        slot.request = None
        message = _PulledMessage(**vars(answer), acknowledge=partial(self._acknowledge, slot))
        slot.message = message
        task = asyncio.create_task(self._handle(slot, message))
        self._handlers.add(task)
        task.add_done_callback(self._handlers.discard)

    def _on_status(self, slot: _Slot, headers: dict[str, str]) -> None:
        status = headers.get("Status")
        if status in (_HEARTBEAT, _EXPIRED):
            self._pause_seconds = MIN_PAUSE_SECONDS
        elif not self._is_refused:
            self._is_refused = True
            description = headers.get("Description", "no responders")
            log.warning("NATS does not deliver messages", status=status, description=description)
        if status == _HEARTBEAT:
            slot.last_sign = time.monotonic()
        else:
            slot.request = None
            self._is_pull_due.set()

    async def _handle(self, slot: _Slot, message: Msg) -> None:
        try:
            if self._subscriber.running:
                await self._subscriber.consume(message)
            else:  # FastStream would ignore it
                await message.nak()
        finally:
            if slot.message is message:
                slot.message = None
                self._is_pull_due.set()

    async def _acknowledge(self, slot: _Slot) -> None:
        message, slot.message = slot.message, None
        assert message is not None
        if self._subscriber.running and self._bus.is_connected:
            await self._pull(slot, message.reply, _ACK_AND_NEXT + self._request)
        else:
            await self._bus.client.publish(message.reply)

    def _forget_requests(self) -> None:
        for slot in self._slots:
            slot.request = None
        self._is_pull_due.set()

    def _forget_lost_requests(self) -> None:
        oldest = time.monotonic() - HEARTBEATS_UNTIL_LOST * self._heartbeat_seconds
        lost = [slot for slot in self._slots if slot.request and slot.last_sign < oldest]
        for slot in lost:
            slot.request = None
        if lost and self._bus.is_connected:
            log.info("NATS lost pull requests; sending them again", requests=len(lost))

    async def _back_off(self) -> None:
        await asyncio.sleep(self._pause_seconds)
        self._pause_seconds = min(2 * self._pause_seconds, MAX_PAUSE_SECONDS)
        self._is_refused = False


def _encode_request(expiry_seconds: float, heartbeat_seconds: float) -> bytes:
    return json.dumps(
        {
            "batch": 1,
            "expires": int(expiry_seconds * 1e9),
            "idle_heartbeat": int(heartbeat_seconds * 1e9),
        }
    ).encode()
