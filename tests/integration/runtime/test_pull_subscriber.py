"""The pull subscriber: every message is handled, no more than `SLOTS` at a time, and no slot gets stuck."""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import pytest
from faststream.exceptions import NackMessage
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.api import ConsumerInfo, DeliverPolicy
from nats.js.errors import NotFoundError

from cli.local.nats import EmbeddedNats
from services.observer.router import create_router
from shared.errors import TransientError
from shared.events.envelope import Event
from shared.events.models import IterationStarted
from shared.events.stream_admin import consumer_config, provision
from shared.events.topology import CONSUMERS, STREAM
from shared.runtime import bus as bus_module
from shared.runtime import pull_subscriber
from shared.runtime.bus import Bus
from tests.support.marks import slow
from tests.support.seeds import repeatable
from tests.support.waiting import wait_until

SLOTS: Final = 3
REPLICAS: Final = 2
STEPS: Final = 15
NACK_SECONDS: Final = 0.05
CONSUMER: Final = CONSUMERS["observer"]


@dataclass
class Work:
    """What the handlers of all replicas do with numbered messages."""

    gate: asyncio.Event = field(default_factory=asyncio.Event)
    """A message is handled once it is open."""
    failures: Counter[int] = field(default_factory=Counter)
    """How often each message still fails."""
    handled: Counter[int] = field(default_factory=Counter)


@dataclass
class Replica:
    """A process with one subscriber."""

    bus: Bus
    work: Work
    running: int = 0
    max_running: int = 0

    async def handle(self, event: IterationStarted) -> Sequence[Event]:
        number = event.number
        self.running += 1
        self.max_running = max(self.max_running, self.running)
        try:
            await self.work.gate.wait()
            if self.work.failures[number]:
                self.work.failures[number] -= 1
                raise NackMessage(delay=NACK_SECONDS)
            self.work.handled[number] += 1
            return []
        finally:
            self.running -= 1


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Bus]:
    bus = Bus(url, name="observer")
    await bus.connect()
    yield bus
    await bus.close()


@asynccontextmanager
async def pulling(url: str, work: Work, *, slots: int = SLOTS) -> AsyncIterator[Replica]:
    async with connected(url) as bus:
        replica = Replica(bus, work)
        bus.broker.include_router(create_router(replica.handle, slots))
        await bus.broker.start()
        yield replica
        await bus.broker.subscribers[0].stop()


async def create_consumer(bus: Bus, *, first: int = 1, ack_wait_seconds: float = 1.0) -> None:
    """Creates the consumer of messages from number `first` on, after deleting an earlier one."""
    with suppress(NotFoundError):
        await bus.jetstream.delete_consumer(STREAM, CONSUMER.service)
    config = consumer_config(CONSUMER)
    config.ack_wait = ack_wait_seconds
    config.deliver_policy, config.opt_start_seq = DeliverPolicy.BY_START_SEQUENCE, first
    await bus.jetstream.add_consumer(STREAM, config)


async def consumer_info(bus: Bus) -> ConsumerInfo:
    info: ConsumerInfo = await bus.jetstream.consumer_info(STREAM, CONSUMER.service)
    return info


async def publish(bus: Bus, number: int) -> None:
    """Publishes message `number`, which may take until NATS is back."""
    event = IterationStarted.of(
        number=number,
        why="due",
        agent_id=UUID(int=number),
        iteration_id=UUID(int=number),
        step_id=UUID(int=number),
        occurred_at="2026-01-01T00:00:00Z",
    )

    async def is_stored() -> bool:
        try:
            await bus.publish(event)
        except TransientError:
            return False
        return True

    await wait_until(is_stored, what=f"message {number} to be stored")


@pytest.fixture
async def control(own_nats: EmbeddedNats, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bus]:
    """A connection to a server of the test's own, with stream and consumer."""
    monkeypatch.setattr(bus_module, "RECONNECT_WAIT_SECONDS", 0.05)
    monkeypatch.setattr(bus_module, "PUBLISH_TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr(pull_subscriber, "REQUEST_SECONDS", 1.0)
    monkeypatch.setattr(pull_subscriber, "MIN_PAUSE_SECONDS", 0.05)
    async with connected(own_nats.url) as bus:
        await provision(bus.jetstream, max_age_seconds=600, max_bytes=2**20)
        await create_consumer(bus)
        yield bus


class Walk:
    """Random messages, failures and losses, from a seed."""

    def __init__(
        self, seed: int, server: EmbeddedNats, control: Bus, replicas: list[Replica], work: Work
    ) -> None:
        self._random = random.Random(seed)
        self._server = server
        self._control = control
        self._replicas = replicas
        self._work = work
        self._published = 0

    async def step(self) -> None:
        steps = (
            *[self._publish] * 6,
            *[self._open_or_close] * 4,
            self._recreate_consumer,
            self._cut_connection,
            self._restart_server,
        )
        await self._random.choice(steps)()

    async def finish(self) -> None:
        """Waits until everything is handled, then until every slot of every replica handles a message."""
        work = self._work
        work.gate.set()
        numbers = range(1, self._published + 1)
        await wait_until(lambda: self._are_handled(numbers), what="every message to be handled")
        work.gate.clear()
        for _ in range(SLOTS * REPLICAS):
            await self._publish_next()
        await wait_until(self._are_all_slots_used, what="a message in every slot")
        work.gate.set()
        await wait_until(self._is_quiet, what="every message to be acked, every slot to pull")

    async def _are_handled(self, numbers: range) -> bool:
        return all(self._work.handled[number] for number in numbers)

    async def _are_all_slots_used(self) -> bool:
        return all(replica.running == SLOTS for replica in self._replicas)

    async def _is_quiet(self) -> bool:
        info = await consumer_info(self._control)
        waiting = (info.num_pending, info.num_ack_pending, info.num_waiting)
        return waiting == (0, 0, REPLICAS)

    async def _publish(self) -> None:
        for _ in range(self._random.randint(1, 2 * SLOTS)):
            await self._publish_next()

    async def _publish_next(self) -> None:
        self._published += 1
        self._work.failures[self._published] = self._random.choice((0, 0, 1, 3))
        await publish(self._control, self._published)

    async def _open_or_close(self) -> None:
        if self._work.gate.is_set():
            self._work.gate.clear()
        else:
            self._work.gate.set()

    async def _recreate_consumer(self) -> None:
        unhandled = (n for n in range(1, self._published + 1) if not self._work.handled[n])
        first = next(unhandled, self._published + 1)

        async def is_created() -> bool:
            try:
                await create_consumer(self._control, first=first)
            except (
                NatsError
            ):  # the connection broke with a killed server, which the client had not noticed
                return False
            return True

        await wait_until(is_created, what="the consumer to be recreated")

    async def _cut_connection(self) -> None:
        await self._random.choice(self._replicas).bus.client.force_reconnect()

    async def _restart_server(self) -> None:
        os.kill(self._server.pid, signal.SIGKILL)
        await wait_until(self._is_dead, what="NATS to be dead")
        self._server.start()
        await wait_until(self._is_connected, what="the client to reconnect")

    async def _is_dead(self) -> bool:
        return not self._server.alive()

    async def _is_connected(self) -> bool:
        return self._control.is_connected


@pytest.mark.parametrize("walk", [0, *slow(1)])
async def test_a_random_walk(own_nats: EmbeddedNats, control: Bus, seed: int, walk: int) -> None:
    work = Work()
    with repeatable(seed):
        async with AsyncExitStack() as stack:
            replicas = [
                await stack.enter_async_context(pulling(own_nats.url, work))
                for _ in range(REPLICAS)
            ]
            course = Walk(seed + walk, own_nats, control, replicas, work)
            for _ in range(STEPS):
                await course.step()
            await course.finish()
    assert all(0 < replica.max_running <= SLOTS for replica in replicas)


async def test_a_service_at_rest_has_one_request(own_nats: EmbeddedNats, control: Bus) -> None:
    async with pulling(own_nats.url, Work()):
        await wait_until(lambda: requests_are(control, 1), what="the request")
        until = time.monotonic() + 0.5
        await wait_until(lambda: is_past(until), what="half a second")
        assert await requests_are(control, 1)


async def requests_are(bus: Bus, count: int) -> bool:
    return (await consumer_info(bus)).num_waiting == count


async def all_handled(work: Work, count: int) -> bool:
    return len(work.handled) == count


async def are_acked(bus: Bus) -> bool:
    info = await consumer_info(bus)
    return not info.num_pending and not info.num_ack_pending


async def test_a_busy_replica_does_not_prefetch(own_nats: EmbeddedNats, control: Bus) -> None:
    busy, other = Work(), Work()
    other.gate.set()
    async with pulling(own_nats.url, busy, slots=1) as replica:
        await publish(control, 1)
        await wait_until(lambda: runs(replica), what="the first message to be handled")
        await publish(control, 2)
        async with pulling(own_nats.url, other, slots=1):
            await wait_until(lambda: all_handled(other, 1), what="the other replica to handle one")
        busy.gate.set()
        await wait_until(lambda: are_acked(control), what="every message to be acked")


async def runs(replica: Replica) -> bool:
    return replica.running > 0


async def test_requests_are_rare_while_the_consumer_is_missing(
    own_nats: EmbeddedNats, control: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_subscriber, "MIN_PAUSE_SECONDS", 0.5)
    work = Work()
    work.gate.set()
    async with pulling(own_nats.url, work) as replica:
        await wait_until(lambda: requests_are(control, 1), what="the first request")
        await control.jetstream.delete_consumer(STREAM, CONSUMER.service)
        sent, until = replica.bus.client.stats["out_msgs"], time.monotonic() + 2.0
        await wait_until(lambda: is_past(until), what="two seconds without the consumer")
        assert replica.bus.client.stats["out_msgs"] - sent <= 3
        await create_consumer(control)
        await publish(control, 1)
        await wait_until(lambda: all_handled(work, 1), what="the message to be handled")


async def is_past(moment: float) -> bool:
    return time.monotonic() > moment


async def test_a_message_that_arrives_at_a_stop_is_handed_back(
    own_nats: EmbeddedNats, control: Bus
) -> None:
    work = Work()
    work.gate.set()
    await create_consumer(control, ack_wait_seconds=600)
    async with pulling(own_nats.url, work) as replica:
        await wait_until(lambda: requests_are(control, 1), what="the first request")
        replica.bus.broker.subscribers[0].running = False
        await publish(control, 1)
        await wait_until(lambda: is_delivered(control), what="the message to be sent")
    assert not work.handled
    async with pulling(own_nats.url, work):
        await wait_until(lambda: all_handled(work, 1), what="the message to be handled")


async def is_delivered(bus: Bus) -> bool:
    return not (await consumer_info(bus)).num_pending


async def test_a_lost_request_is_sent_again(
    own_nats: EmbeddedNats, control: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, lost = Client.publish, list[str]()

    async def lose_first_request(client: Client, subject: str, *args: Any, **options: Any) -> None:
        if ".MSG.NEXT." in subject and not lost:
            lost.append(subject)
        else:
            await send(client, subject, *args, **options)

    monkeypatch.setattr(Client, "publish", lose_first_request)
    work = Work()
    work.gate.set()
    async with pulling(own_nats.url, work, slots=1):
        await publish(control, 1)
        await wait_until(lambda: all_handled(work, 1), what="the message to be handled")
    assert lost
