"""JetStream in virtual time, with one stream and the durable consumers of the topology."""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import Context
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from nats.aio.msg import Msg
from nats.errors import TimeoutError as NatsTimeoutError

from shared.events.topology import CONSUMERS, DUPLICATE_WINDOW_SECONDS, Consumer
from tests.support.simulation.clock import PROCESS, Process, ProcessState, VirtualLoop
from tests.support.simulation.faults import Faults

LATENCY_SECONDS: Final = 0.002


@dataclass(frozen=True)
class Published:
    """A message that a process has published, also if it was lost or dropped as a duplicate."""

    payload: bytes
    is_stored: bool


@dataclass(eq=False)
class _Pending:
    """A message that a consumer has not acknowledged."""

    sequence: int
    subject: str
    payload: bytes
    deliveries: int = 0
    timer: asyncio.TimerHandle | None = None
    """Until it is delivered again."""


@dataclass
class _ConsumerState:
    consumer: Consumer
    pending: dict[int, _Pending] = field(default_factory=dict)
    ready: list[_Pending] = field(default_factory=list)
    """Those that are to be delivered now."""
    pulls: deque[tuple[Process, asyncio.Future[_Pending]]] = field(default_factory=deque)


class JetStream:
    """Redelivers what is not acknowledged within `ack_wait`, without limit, as the topology configures it."""

    def __init__(self, loop: VirtualLoop, chance: Random, faults: Faults) -> None:
        self._loop = loop
        self._chance = chance
        self._faults = faults
        self._context = Context()
        """Of what happens in the server, not in a process."""
        self._consumers = {name: _ConsumerState(each) for name, each in CONSUMERS.items()}
        self._stored_at: dict[str, float] = {}
        self._sequence = 0
        self.published: list[Published] = []
        self.watch: Callable[[str, bytes], None] = lambda subject, payload: None
        """Called with each message when its process publishes it."""
        self.trace: Callable[[str], None] = lambda line: None

    @property
    def is_empty(self) -> bool:
        """Whether all messages were acknowledged. Nothing runs that reads those of the assistant."""
        return not any(state.pending for state in self._consumers.values())

    def open_messages(self) -> list[str]:
        return [
            f"{name}: {pending.subject} after {pending.deliveries} deliveries"
            for name, state in self._consumers.items()
            for pending in state.pending.values()
        ]

    def store(
        self, subject: str, payload: bytes, message_id: str, *, may_be_lost: bool = False
    ) -> None:
        """Stores a message, unless it is a duplicate, and delivers it to the consumers of its subject."""
        now = self._loop.time()
        if now - self._stored_at.get(message_id, -1e9) < DUPLICATE_WINDOW_SECONDS:
            return
        self._stored_at[message_id] = now
        self._sequence += 1
        if may_be_lost and self._faults.happens("message lost"):
            self.trace(f"lost {self._sequence}")
            return
        for state in self._consumers.values():
            if subject in state.consumer.subjects:
                pending = _Pending(self._sequence, subject, payload)
                state.pending[self._sequence] = pending
                self._deliver_in(state, pending, self._delay())

    async def publish(
        self, subject: str, payload: bytes, message_id: str, timeout_seconds: float
    ) -> None:
        self.watch(subject, payload)
        await asyncio.sleep(self._latency())
        is_lost = self._faults.happens("publish lost")
        self.published.append(Published(payload, not is_lost))
        self.trace(f"publish {subject} {message_id} {'lost' if is_lost else ''}")
        if not is_lost:
            self.store(subject, payload, message_id, may_be_lost=True)
        if is_lost or self._faults.happens("confirmation lost"):
            await asyncio.sleep(timeout_seconds)
            raise NatsTimeoutError
        await asyncio.sleep(self._latency())

    async def pull(self, name: str, process: Process) -> _Pending:
        """The next message of the consumer."""
        state = self._consumers[name]
        future: asyncio.Future[_Pending] = self._loop.create_future()
        state.pulls.append((process, future))
        self._match(state)
        return await future

    def forget(self, process: Process) -> None:
        """Drops the pull requests of a process whose connection has ended."""
        for state in self._consumers.values():
            state.pulls = deque(each for each in state.pulls if each[0] is not process)

    async def settle(
        self, name: str, sequence: int, delivery: int, delay_seconds: float | None
    ) -> None:
        """Acknowledges the message if `delay_seconds` is None, else has it delivered again after that time."""
        await asyncio.sleep(self._latency())
        state = self._consumers[name]
        if self._faults.happens("acknowledgement lost"):
            self.trace(f"ack of {sequence} to {name} lost")
            return
        message = state.pending.get(sequence)
        if message is None or (delay_seconds is not None and delivery != message.deliveries):
            return
        if delay_seconds is not None:
            self.trace(f"nak {message.sequence} by {name} for {delay_seconds:.3f}")
            self._deliver_in(state, message, delay_seconds)
            return
        self.trace(f"ack {message.sequence} by {name}")
        del state.pending[message.sequence]
        if message.timer is not None:
            message.timer.cancel()
        if message in state.ready:
            state.ready.remove(message)

    def extend(self, name: str, sequence: int, delivery: int) -> None:
        """A worker says that it is still at work."""
        state = self._consumers[name]
        message = state.pending.get(sequence)
        if (
            message is not None
            and message not in state.ready
            and delivery == message.deliveries
            and not self._faults.happens("acknowledgement lost")
        ):
            self._deliver_in(state, message, state.consumer.ack_wait_seconds)

    def _deliver_in(self, state: _ConsumerState, message: _Pending, seconds: float) -> None:
        if message.timer is not None:
            message.timer.cancel()
        message.timer = self._loop.call_later(
            seconds, self._offer, state, message, context=self._context
        )

    def _offer(self, state: _ConsumerState, message: _Pending) -> None:
        if message.sequence in state.pending and message not in state.ready:
            state.ready.append(message)
            self._match(state)

    def _match(self, state: _ConsumerState) -> None:
        """Gives ready messages to open pull requests, both in random order."""
        while state.ready and state.pulls:
            message = state.ready.pop(self._chance.randrange(len(state.ready)))
            process, future = state.pulls[0]
            state.pulls.popleft()
            if process.state is ProcessState.DEAD or future.done():
                state.ready.append(message)
                continue
            message.deliveries += 1
            self.trace(f"deliver {message.sequence} #{message.deliveries} to {process.name}")
            is_doubled = self._faults.happens("message doubled")
            wait = self._delay() if is_doubled else state.consumer.ack_wait_seconds
            self._deliver_in(state, message, wait)
            future.set_result(message)
            state.pulls.rotate(self._chance.randrange(len(state.pulls) or 1))

    def _latency(self) -> float:
        return self._chance.expovariate(1 / LATENCY_SECONDS)

    def _delay(self) -> float:
        if self._faults.happens("message delayed"):
            return self._chance.uniform(0.1, 10.0)
        return self._latency()


class SimulatedClient:
    """In place of the client of NATS: what FastStream, its messages and `shared.runtime` use of it."""

    is_connected = True
    is_closed = False
    last_error = None

    def __init__(self, jetstream: JetStream) -> None:
        self._jetstream = jetstream

    def jetstream(self, **_: Any) -> "_Context":
        return _Context(self._jetstream, self)

    async def publish(self, reply: str, payload: bytes = Msg.Ack.Ack) -> None:
        """Settles the message with this reply subject: acknowledges it, hands it back, or asks for more time."""
        _, _, _, consumer, delivery, sequence, *_ = reply.split(".")
        if payload == Msg.Ack.Progress:
            self._jetstream.extend(consumer, int(sequence), int(delivery))
            return
        delay_seconds = None
        if payload.startswith(Msg.Ack.Nak):
            options = json.loads(payload.removeprefix(Msg.Ack.Nak) or "{}")
            delay_seconds = options.get("delay", 0) / 1e9
        await self._jetstream.settle(consumer, int(sequence), int(delivery), delay_seconds)

    async def flush(self, timeout: float) -> None:
        """All was sent."""

    async def drain(self) -> None:
        """Nothing is open."""

    async def close(self) -> None:
        """Nothing is open."""


@dataclass
class _Context:
    """The JetStream context of a client."""

    _jetstream: JetStream
    _client: SimulatedClient

    async def publish(
        self,
        *,
        subject: str,
        payload: bytes,
        headers: Mapping[str, str],
        timeout: float,
        stream: str,
    ) -> None:
        await self._jetstream.publish(subject, payload, headers["Nats-Msg-Id"], timeout)

    async def pull_subscribe_bind(self, consumer: str, stream: str) -> "_PullSubscription":
        process = PROCESS.get()
        assert process is not None
        return _PullSubscription(self._jetstream, self._client, consumer, stream, process)


@dataclass
class _PullSubscription:
    _jetstream: JetStream
    _client: SimulatedClient
    _consumer: str
    _stream: str
    _process: Process

    async def fetch(self, batch: int, timeout: float) -> list[Msg]:
        assert batch == 1
        async with asyncio.timeout(timeout):
            pending = await self._jetstream.pull(self._consumer, self._process)
        place = f"{self._consumer}.{pending.deliveries}.{pending.sequence}"
        reply = f"$JS.ACK.{self._stream}.{place}.0.0.0"
        client: Any = self._client
        return [Msg(client, pending.subject, reply, pending.payload)]

    async def unsubscribe(self) -> None:
        self._jetstream.forget(self._process)
